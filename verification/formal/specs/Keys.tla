-------------------------------- MODULE Keys --------------------------------
(***************************************************************************)
(* Are the messages of an order key delivered one at a time, and does the  *)
(* next one always go on? What a dequeue sets aside (pgqueue_take_keyed)   *)
(* and a settlement releases (pgqueue_release_keys, and its short way      *)
(* pgqueue_release_key), for one key. Each step is one statement: it sees  *)
(* what was committed before it, and locks with SKIP LOCKED.               *)
(*                                                                         *)
(* Each guard of the SQL is a constant: TRUE is what the SQL does.         *)
(*                                                                         *)
(* A transaction makes one call, and then commits or rolls back: it        *)
(* dequeues, settles a message in any state, reads the notes as a tick     *)
(* does, or only holds a message (an operator who changes his mind).       *)
(*                                                                         *)
(* Abstracted: other keys, lanes and limits, the time of a message, a      *)
(* transaction that makes several calls. A message's number is its place,  *)
(* and transactions that enqueue commit in any order.                      *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Messages, Transactions

CONSTANTS
    DeliveredFirst,   \* FALSE: the first message is the one with the least place, also while another one is delivered
    DequeueHoldsKey,  \* FALSE: a dequeue does not lock the key
    SeesAfterwards,   \* FALSE: a dequeue looks for the first message with the snapshot of its beginning
    SettlementHolds,  \* FALSE: a settlement does not lock the key, and leaves no note if it cannot
    ShortHolds,       \* FALSE: the short way is taken without the key, too
    ShortSeesAside,   \* FALSE: the short way is taken also when the next message waits for its key
    HeldIsNoted,      \* FALSE: a settlement leaves no note if another transaction holds the next message
    ReaderNotes,      \* FALSE: the same of a reader of the notes
    HeldNotesStay     \* FALSE: a reader takes the notes also while another transaction holds the key

VARIABLES
    message,   \* absent | ready | aside (it waits for its key) | leased | gone: what is committed
    delivered, \* it was leased, and is not settled
    notes,     \* committed: how many
    tx         \* of each transaction: where it is, what it has locked, and what it will commit

vars == <<message, delivered, notes, tx>>

Idle == [at |-> "idle", own |-> 0, next |-> 0, holds |-> {}, key |-> FALSE, eaten |-> 0, note |-> FALSE, frees |-> FALSE]

Init ==
    /\ message = [m \in Messages |-> "absent"]
    /\ delivered = [m \in Messages |-> FALSE]
    /\ notes = 0
    /\ tx = [t \in Transactions |-> Idle]

Live == {m \in Messages : message[m] \in {"ready", "aside", "leased"}}
Least(numbers) == CHOOSE n \in numbers : \A o \in numbers : n <= o
First(some) ==
    LET before == {m \in some : DeliveredFirst /\ delivered[m]}
    IN Least(IF before = {} THEN some ELSE before)
Others(t) == Transactions \ {t}
Free(t, m) == \A o \in Others(t) : m \notin tx[o].holds
KeyIsFree(t) == \A o \in Others(t) : ~tx[o].key
Set(t, fields) == tx' = [tx EXCEPT ![t] = fields @@ @]
Untouched == UNCHANGED <<message, delivered, notes>>

-----------------------------------------------------------------------------
Enqueue(m) ==
    /\ message[m] = "absent"
    /\ message' = [message EXCEPT ![m] = "ready"]
    /\ UNCHANGED <<delivered, notes, tx>>

\* A retry, a deferral, or an expired lease.
ComeBack(m) ==
    /\ message[m] = "leased" /\ \A t \in Transactions : m \notin tx[t].holds
    /\ message' = [message EXCEPT ![m] = "ready"]
    /\ UNCHANGED <<delivered, notes, tx>>

-----------------------------------------------------------------------------
Take(t, m) ==
    /\ tx[t].at = "idle" /\ message[m] = "ready" /\ Free(t, m)
    /\ Set(t, [at |-> "taken", own |-> m, holds |-> {m}, next |-> First(Live)])
    /\ Untouched

\* A message whose key another transaction holds stays ready.
TryKey(t) ==
    /\ tx[t].at = "taken"
    /\ IF DequeueHoldsKey /\ ~KeyIsFree(t)
       THEN tx' = [tx EXCEPT ![t] = Idle]
       ELSE Set(t, [at |-> "keyed", key |-> DequeueHoldsKey])
    /\ Untouched

See(t) ==
    /\ tx[t].at = "keyed"
    /\ LET first == IF SeesAfterwards THEN First(Live) ELSE tx[t].next
       IN Set(t, [at |-> IF first = tx[t].own THEN "leases" ELSE "sets aside"])
    /\ Untouched

Lease(t) ==
    /\ tx[t].at = "leases"
    /\ message' = [message EXCEPT ![tx[t].own] = "leased"]
    /\ delivered' = [delivered EXCEPT ![tx[t].own] = TRUE]
    /\ tx' = [tx EXCEPT ![t] = Idle]
    /\ UNCHANGED notes

SetAside(t) ==
    /\ tx[t].at = "sets aside"
    /\ message' = [message EXCEPT ![tx[t].own] = "aside"]
    /\ tx' = [tx EXCEPT ![t] = Idle]
    /\ UNCHANGED <<delivered, notes>>

-----------------------------------------------------------------------------
Settle(t, m) ==
    /\ tx[t].at = "idle" /\ m \in Live /\ Free(t, m)
    /\ Set(t, [at |-> "deletes", own |-> m, holds |-> {m}])
    /\ Untouched

HoldKey(t) ==
    /\ tx[t].at = "deletes"
    /\ Set(t, [at |-> "reads", key |-> SettlementHolds /\ KeyIsFree(t), note |-> SettlementHolds /\ ~KeyIsFree(t)])
    /\ Untouched

Eaten == {tx[t].eaten : t \in Transactions}

\* A reader deletes all notes that it can lock.
EatNotes(t) ==
    /\ tx[t].at = "idle" /\ notes > 0 /\ Eaten = {0}
    /\ Set(t, [at |-> "eats", eaten |-> notes])
    /\ Untouched

\* A settlement that holds the key has looked for the next message, and does not look again.
LookAtKey(t) ==
    /\ tx[t].at = "eats"
    /\ IF HeldNotesStay /\ ~KeyIsFree(t) THEN tx' = [tx EXCEPT ![t] = Idle] ELSE Set(t, [at |-> "reads"])
    /\ Untouched

\* A message that is leased releases the next one when it is settled.
FindNext(t) ==
    /\ tx[t].at = "reads"
    /\ LET left == Live \ {tx[t].own}
       IN IF left = {} \/ message[First(left)] = "leased"
          THEN Set(t, [at |-> "done"])
          ELSE Set(t, [at |-> "found", next |-> First(left)])
    /\ Untouched

\* The short way: while it holds the key, nobody sets the next message aside.
NoneWaits(t) ==
    /\ tx[t].at = "reads" /\ tx[t].own # 0 /\ (tx[t].key \/ ~ShortHolds)
    /\ LET left == Live \ {tx[t].own}
       IN IF left = {} THEN TRUE ELSE message[First(left)] # "aside" \/ ~ShortSeesAside
    /\ Set(t, [at |-> "done", note |-> FALSE])
    /\ Untouched

\* The lock shows the newest state of the message.
LockNext(t) ==
    /\ tx[t].at = "found"
    /\ LET m == tx[t].next
           notesIt == IF tx[t].own = 0 THEN ReaderNotes ELSE HeldIsNoted
       IN IF m \in Live /\ Free(t, m)
          THEN Set(t, [at |-> "done", holds |-> tx[t].holds \union {m}, frees |-> message[m] = "aside"])
          ELSE Set(t, [at |-> "done", note |-> tx[t].note \/ notesIt])
    /\ Untouched

Commit(t) ==
    /\ tx[t].at = "done"
    /\ message' = [m \in Messages |->
        CASE m = tx[t].own -> "gone"
          [] m = tx[t].next /\ tx[t].frees -> "ready"
          [] OTHER -> message[m]]
    /\ delivered' = [m \in Messages |-> delivered[m] /\ m # tx[t].own]
    /\ notes' = notes - tx[t].eaten + (IF tx[t].note THEN 1 ELSE 0)
    /\ tx' = [tx EXCEPT ![t] = Idle]

-----------------------------------------------------------------------------
Hold(t, m) ==
    /\ tx[t].at = "idle" /\ m \in Live /\ Free(t, m)
    /\ Set(t, [at |-> "holds", holds |-> {m}])
    /\ Untouched

RollBack(t) ==
    /\ tx[t].at # "idle"
    /\ tx' = [tx EXCEPT ![t] = Idle]
    /\ Untouched

Next ==
    \/ \E m \in Messages : Enqueue(m) \/ ComeBack(m)
    \/ \E t \in Transactions :
        \/ TryKey(t) \/ See(t) \/ Lease(t) \/ SetAside(t)
        \/ HoldKey(t) \/ EatNotes(t) \/ LookAtKey(t) \/ NoneWaits(t) \/ FindNext(t) \/ LockNext(t) \/ Commit(t) \/ RollBack(t)
        \/ \E m \in Messages : Take(t, m) \/ Settle(t, m) \/ Hold(t, m)

Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Transactions)

-----------------------------------------------------------------------------
(* What must hold. *)

\* After a message was delivered, no other one of its key is before it is settled.
OneDelivered == \A m, n \in Messages : delivered[m] /\ delivered[n] => m = n

\* The first message waits for no other one: a note leads to it, or a transaction that is open.
Released ==
    Live # {} /\ notes = 0 /\ (\A t \in Transactions : tx[t].at = "idle") => message[First(Live)] # "aside"
=============================================================================
