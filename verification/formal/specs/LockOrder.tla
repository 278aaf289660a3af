----------------------------- MODULE LockOrder -----------------------------
(***************************************************************************)
(* Who waits for whom. Each SQL function is the list of the row locks that *)
(* it takes, in the order of docs/explanation/lock-order.md; a transaction *)
(* makes up to MaxCalls calls and keeps its locks until it ends. It may    *)
(* stay open for ever.                                                     *)
(*                                                                         *)
(* Each guard of the SQL is a constant, and so is each rule that business  *)
(* transactions must keep: TRUE is what the SQL does, or the rule is kept. *)
(*                                                                         *)
(* Abstracted: rows that only their inserter knows, unique keys other than *)
(* dedupe keys, NOTIFY (which comes after all of the order), and locks     *)
(* that are only tried (of tickers, of pruners, of new lanes).             *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS Transactions, Free, MaxCalls

CONSTANTS
    FreeEnqueue,      \* FALSE: an enqueue locks the row of its channel
    SortedEnqueue,    \* FALSE: a statement that enqueues to many channels takes them in any order
    TimedLateEnqueue, \* FALSE: who comes to a smaller channel later waits without a time-out
    SortedSettle,     \* FALSE: settling, heartbeat and cancel take messages in any order
    AppendingSettle,  \* FALSE: settling writes to the count of its channel
    SkippingDequeue,  \* FALSE: the dequeue waits for lanes
    SkippingSweep     \* FALSE: the sweep waits for messages

CONSTANTS
    EnqueueFirst,   \* rule: a transaction that settles enqueues nothing to a channel with max_size afterwards
    SettleInOrder,  \* rule: several settlements in one transaction are in the order of ids
    DequeueLast,    \* rule: after a dequeue a transaction asks for nothing else
    EditAlone,      \* rule: limits are edited in a transaction of its own
    OneKey          \* rule: one dedupe key a transaction, or one enqueue_many

VARIABLES
    owner,  \* of each row that is locked
    tx      \* of each transaction: the call that it is in, the step of it, and what it did before

vars == <<owner, tx>>

Two == {1, 2}
Rows ==
    ({"stream"} \X {1}) \cup ({"channel", "size", "lane", "message", "key"} \X Two)

Wait(row, n) == [row |-> <<row, n>>, mode |-> "wait"]
Skip(row, n) == [row |-> <<row, n>>, mode |-> "skip"]
Timed(row, n) == [row |-> <<row, n>>, mode |-> "timed"]
Lane(n) == IF SkippingDequeue THEN Skip("lane", n) ELSE Wait("lane", n)
Read(n) == IF SkippingSweep THEN Skip("message", n) ELSE Wait("message", n)
Counts(n) == IF AppendingSettle THEN <<>> ELSE <<Wait("size", n)>>
Call(kind, steps) == [kind |-> kind, steps |-> steps]

\* Message n is of channel n; both channels have a max_size.
Settles ==
    {<<Wait("message", n)>> \o Counts(n) : n \in Two}
    \cup {<<Wait("message", 1), Wait("message", 2)>> \o Counts(1) \o Counts(2)}
    \cup (IF SortedSettle THEN {} ELSE {<<Wait("message", 2), Wait("message", 1)>>})
\* The head of the line is the lane that came last to its tail: lanes have no order.
Dequeues ==
    {<<Lane(n), Skip("message", n)>> : n \in Two}
    \cup {<<Lane(n), Skip("message", n), Lane(3 - n), Skip("message", 3 - n)>> : n \in Two}

\* A plain enqueue, to a channel without max_size, takes no lock that another call could wait for: it is no step at all.
Calls ==
    (IF FreeEnqueue THEN {} ELSE {Call("plain enqueue", <<Wait("channel", n)>>) : n \in Two})
    \cup {Call("enqueue", <<Wait("size", n)>>) : n \in Two}
    \cup {Call("enqueue", <<Wait("size", 1), Wait("size", 2)>>)}
    \cup (IF SortedEnqueue THEN {} ELSE {Call("enqueue", <<Wait("size", 2), Wait("size", 1)>>)})
    \cup {Call("dedupe", <<Wait("key", n)>>) : n \in Two}
    \cup {Call("dedupe", <<Wait("key", 1), Wait("key", 2)>>)}
    \* complete, retry, defer, dead_letter, heartbeat, cancel
    \cup {Call("settle", steps) : steps \in Settles}
    \* dequeue, pop, purge, promote
    \cup {Call("dequeue", steps) : steps \in Dequeues}
    \* expired leases in the order of their expiry; then counts and lanes of channels that changed
    \cup {Call("sweep", <<Read(n), Read(3 - n), Skip("size", 1), Skip("size", 2), Skip("lane", 1), Skip("lane", 2)>>) : n \in Two}
    \cup {Call("stream claim", <<Wait("stream", 1), Wait("message", 1), Wait("message", 2), Lane(1), Skip("message", 1)>>)}
    \* a schedule that fires: its own lock_timeout is 200 ms
    \cup {Call("schedule", <<Timed("size", n)>>) : n \in Two}
    \* channel_set, or the admin: sets or lifts max_size
    \cup {Call("edit", <<Wait("channel", n), Wait("size", n)>>) : n \in Two}

Nothing == Call("none", <<>>)
Begun == [call |-> Nothing, step |-> 1, calls |-> 0, did |-> {}, size |-> 0, message |-> 0]

Init ==
    /\ owner = [row \in Rows |-> Free]
    /\ tx = [t \in Transactions |-> Begun]

Current(t) == tx[t].call.steps[tx[t].step]
InCall(t) == tx[t].call # Nothing

\* pgqueue_reserve: out of order it waits for 200 ms, then the caller gets ChannelBusy.
Mode(t) ==
    LET step == Current(t) IN
    IF step.mode = "wait" /\ step.row[1] = "size" /\ tx[t].call.kind = "enqueue" /\ TimedLateEnqueue
        /\ step.row[2] < tx[t].size
    THEN "timed" ELSE step.mode

Blocked(t) == InCall(t) /\ owner[Current(t).row] \notin {Free, t} /\ Mode(t) # "skip"
Waits(t) == Blocked(t) /\ Mode(t) = "wait"

-----------------------------------------------------------------------------
Alone == {"sweep", "stream claim", "schedule"}
First(call) == call.steps[1].row[2]

Allowed(t, call) ==
    LET did == tx[t].did IN
    /\ did \cap Alone = {} /\ (call.kind \in Alone => did = {})
    /\ EnqueueFirst /\ call.kind = "enqueue" => "settle" \notin did
    /\ SettleInOrder /\ call.kind = "settle" => First(call) > tx[t].message
    /\ DequeueLast => "dequeue" \notin did
    /\ EditAlone => "edit" \notin did /\ (call.kind = "edit" => did = {})
    /\ OneKey /\ call.kind = "dedupe" => did \cap {"dedupe", "settle", "enqueue"} = {}
    /\ OneKey /\ call.kind = "enqueue" => "dedupe" \notin did
    /\ OneKey /\ call.kind = "settle" => "dedupe" \notin did

Ask(t, call) ==
    /\ ~InCall(t) /\ tx[t].calls < MaxCalls /\ Allowed(t, call)
    /\ tx' = [tx EXCEPT
        ![t].call = call, ![t].step = 1, ![t].calls = @ + 1, ![t].did = @ \cup {call.kind}]
    /\ UNCHANGED owner

Step(t) ==
    LET step == Current(t)
        taken == owner[step.row] \in {Free, t}
        at == step.row[2]
    IN
    /\ InCall(t) /\ (taken \/ Mode(t) = "skip")
    /\ owner' = IF taken THEN [owner EXCEPT ![step.row] = t] ELSE owner
    /\ tx' = [tx EXCEPT
        ![t].size = IF step.row[1] = "size" /\ tx[t].call.kind = "enqueue" /\ at > @ THEN at ELSE @,
        ![t].message = IF step.row[1] = "message" /\ tx[t].call.kind = "settle" /\ at > @ THEN at ELSE @,
        ![t].call = IF tx[t].step = Len(@.steps) THEN Nothing ELSE @,
        ![t].step = IF tx[t].step = Len(tx[t].call.steps) THEN 1 ELSE @ + 1]

Release(t) ==
    /\ owner' = [row \in Rows |-> IF owner[row] = t THEN Free ELSE owner[row]]
    /\ tx' = [tx EXCEPT ![t] = Begun]

Commit(t) == ~InCall(t) /\ tx[t].calls > 0 /\ Release(t)
TimeOut(t) == Blocked(t) /\ Mode(t) = "timed" /\ Release(t)

Next == \E t \in Transactions : (\E call \in Calls : Ask(t, call)) \/ Step(t) \/ Commit(t) \/ TimeOut(t)
Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Transactions)

-----------------------------------------------------------------------------
(* What must hold. *)

NoCircle == \A circle \in (SUBSET Transactions) \ {{}} :
    ~\A t \in circle : Waits(t) /\ owner[Current(t).row] \in circle

\* F10: each worker goes on, however long a transaction that has only enqueued stays open.
NoCallWaitsForProducers == \A t \in Transactions :
    Blocked(t) /\ tx[t].call.kind \in {"settle", "dequeue", "sweep", "stream claim", "plain enqueue"}
    => tx[owner[Current(t).row]].did \cap {"settle", "dequeue", "sweep", "stream claim"} # {}

\* "Waits for: no other transaction" in the table of the documentation.
SomeNeverWait == \A t \in Transactions : Blocked(t) => tx[t].call.kind \notin {"plain enqueue", "dequeue", "sweep"}

\* ChannelBusy is only for who comes to a smaller channel with a later call.
OnlyLatecomersAreRefused == \A t \in Transactions :
    Blocked(t) /\ Mode(t) = "timed" => tx[t].calls > 1 \/ tx[t].call.kind = "schedule"
=============================================================================
