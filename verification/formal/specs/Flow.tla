-------------------------------- MODULE Flow --------------------------------
(***************************************************************************)
(* The end of a batch, or of the wait of a message for others: its members *)
(* are settled by transactions of their own, at the same time. A client    *)
(* enqueues the message that waits, and a sweep does what others could not.*)
(*                                                                         *)
(* A transaction sees what is committed at each of its steps. Its own      *)
(* writes are its fields, and its commit applies them; it may roll back.   *)
(*                                                                         *)
(* Abstracted: outcomes, redrives, outer batches, and old snapshots.       *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Members

CONSTANTS
    LocksInCommit,   \* FALSE: the enqueue locks what the message waits for, not its commit
    CommitHolds,     \* FALSE: the commit does not hold what it finds live
    CommitLooks,     \* FALSE: the commit does not look what has ended since the enqueue
    LockedIsLive,    \* FALSE: the commit takes what it cannot lock for ended
    PassingIsHeld,   \* FALSE: a settlement that passes holds no advisory lock
    PassingLooks,    \* FALSE: and does not look again under it
    LocksBatch,      \* FALSE: what may be the last settlement does not lock the batch
    WaitsForPassed,  \* FALSE: and does not wait for those that have passed
    CountsAgain,     \* FALSE: and does not look again after that
    TimeoutNotes,    \* FALSE: a wait that comes to its end leaves no note
    SweepSeals       \* FALSE: the sweep takes a note for one of a settlement

VARIABLES
    message,  \* live | gone
    marked,   \* the messages whose settlements look for the batch
    rows,     \* the members that are outstanding
    batch,    \* absent | open | sealed | over
    ended,    \* how often it has ended
    notes,    \* for the sweep
    tx        \* of each transaction: where it is, what it holds, and what it will commit

vars == <<message, marked, rows, batch, ended, notes, tx>>

Openers == {"client", "sweep"}
Transactions == Members \union Openers
Idle == [at |-> "idle", waits |-> {}, tried |-> {}, found |-> {}, held |-> {}, out |-> {}, lock |-> FALSE, shared |-> FALSE,
         alone |-> FALSE, seals |-> FALSE, ends |-> FALSE, note |-> FALSE, clears |-> 0]

Init ==
    /\ message = [m \in Members |-> "live"]
    /\ ended = 0 /\ notes = 0
    /\ tx = [t \in Transactions |-> Idle]
    /\ \/ batch = "absent" /\ rows = {} /\ marked = {}
       \/ batch = "sealed" /\ rows = Members /\ marked = Members

Others(t) == Transactions \ {t}
Set(t, fields) == tx' = [tx EXCEPT ![t] = fields @@ @]
Committed == UNCHANGED <<message, marked, rows, batch, ended, notes>>
Touched == UNION {tx[t].out : t \in Transactions}
Left(t) == rows \ tx[t].out
Untouched(t) == Left(t) \ Touched # {}
BatchIsFree(t) == \A o \in Others(t) : ~tx[o].lock
Passed(t) == {o \in Others(t) : tx[o].shared \/ tx[o].alone}

-----------------------------------------------------------------------------
(* A settlement. *)

Settle(m) ==
    /\ tx[m].at = "idle" /\ message[m] = "live"
    /\ \A o \in Openers : m \notin tx[o].held
    /\ Set(m, [at |-> IF m \in marked THEN "deletes" ELSE "done"])
    /\ Committed

TakeOut(m) ==
    /\ tx[m].at = "deletes"
    /\ IF m \in rows THEN Set(m, [at |-> "looks", out |-> {m}]) ELSE Set(m, [at |-> "done"])
    /\ Committed

Look(m) ==
    /\ tx[m].at = "looks"
    /\ Set(m, [at |-> IF Untouched(m) THEN "passes" ELSE "locks"])
    /\ Committed

Pass(m) ==
    /\ tx[m].at = "passes" /\ \A o \in Others(m) : ~tx[o].alone
    /\ Set(m, [at |-> "looks again", shared |-> PassingIsHeld])
    /\ Committed

LookAgain(m) ==
    /\ tx[m].at = "looks again"
    /\ IF Untouched(m) \/ ~PassingLooks THEN Set(m, [at |-> "done"]) ELSE Set(m, [at |-> "locks", shared |-> FALSE])
    /\ Committed

LockBatch(m) ==
    /\ tx[m].at = "locks" /\ (BatchIsFree(m) \/ ~LocksBatch)
    /\ IF batch = "sealed" THEN Set(m, [at |-> "counts", lock |-> LocksBatch]) ELSE Set(m, [at |-> "done"])
    /\ Committed

Count(m) ==
    /\ tx[m].at = "counts"
    /\ CASE Left(m) = {} -> Set(m, [at |-> "done", ends |-> TRUE])
         [] Untouched(m) -> Set(m, [at |-> "done"])
         [] OTHER -> Set(m, [at |-> "waits"])
    /\ Committed

Wait(m) ==
    /\ tx[m].at = "waits" /\ (Passed(m) = {} \/ ~WaitsForPassed)
    /\ Set(m, [at |-> "counts again", alone |-> WaitsForPassed])
    /\ Committed

CountAgain(m) ==
    /\ tx[m].at = "counts again"
    /\ Set(m, [at |-> "done", ends |-> Left(m) = {} /\ CountsAgain])
    /\ Committed

\* After half a second: its locks of this look are given back.
TimeOut(m) ==
    /\ \/ tx[m].at = "passes" /\ (\E o \in Others(m) : tx[o].alone) /\ Set(m, [at |-> "locks"])
       \/ /\ \/ tx[m].at = "locks" /\ ~BatchIsFree(m)
             \/ tx[m].at = "waits" /\ Passed(m) # {}
          /\ Set(m, [at |-> "done", lock |-> FALSE, note |-> TimeoutNotes])
    /\ Committed

CommitSettlement(m) ==
    /\ tx[m].at = "done"
    /\ message' = [message EXCEPT ![m] = "gone"]
    /\ rows' = rows \ tx[m].out
    /\ batch' = IF tx[m].ends THEN "over" ELSE batch
    /\ ended' = ended + (IF tx[m].ends THEN 1 ELSE 0)
    /\ notes' = notes + (IF tx[m].note THEN 1 ELSE 0)
    /\ tx' = [tx EXCEPT ![m] = Idle]
    /\ UNCHANGED marked

-----------------------------------------------------------------------------
(* A client enqueues the message that waits; its transaction stays open for as long as it likes. *)

Free(m) == message[m] = "live" /\ tx[m].at = "idle"

Enqueue ==
    /\ tx["client"].at = "idle" /\ batch = "absent"
    /\ LET live == {m \in Members : message[m] = "live"}
       IN Set("client", [at |-> "open", waits |-> live, held |-> IF LocksInCommit THEN {} ELSE {m \in live : Free(m)}])
    /\ Committed

BeginCommit ==
    /\ tx["client"].at = "open"
    /\ Set("client", [at |-> "holds"])
    /\ Committed

\* The rows are locked one by one, and those that are locked are skipped.
Hold(o, m) ==
    /\ tx[o].at = "holds" /\ m \in tx[o].waits \ tx[o].tried
    /\ Set(o, [tried |-> tx[o].tried \union {m},
               found |-> tx[o].found \union (IF Free(m) THEN {m} ELSE {}),
               held |-> tx[o].held \union (IF Free(m) /\ CommitHolds THEN {m} ELSE {})])
    /\ Committed

Judge(o) ==
    /\ tx[o].at = "holds" /\ tx[o].tried = tx[o].waits
    /\ LET unsure == tx[o].waits \ tx[o].found
           gone == {m \in unsure : IF message[m] = "gone" THEN CommitLooks ELSE ~LockedIsLive}
           left == tx[o].waits \ gone
           seals == left \subseteq tx[o].found \/ ~CommitLooks
       IN Set(o, [at |-> IF o = "sweep" /\ seals THEN "sweeps" ELSE "done", out |-> gone, seals |-> seals,
                  ends |-> o = "client" /\ seals /\ left = {}, note |-> o = "client" /\ ~seals])
    /\ Committed

-----------------------------------------------------------------------------
BeginSweep ==
    /\ tx["sweep"].at = "idle" /\ notes > 0 /\ BatchIsFree("sweep")
    /\ CASE batch = "over" -> Set("sweep", [at |-> "done", clears |-> notes])
         [] batch = "open" /\ SweepSeals -> Set("sweep", [at |-> "holds", lock |-> TRUE, waits |-> rows])
         [] OTHER -> Set("sweep", [at |-> "sweeps", lock |-> TRUE, seals |-> TRUE])
    /\ Committed

Sweep ==
    /\ tx["sweep"].at = "sweeps"
    /\ CASE Untouched("sweep") -> Set("sweep", [at |-> "done", clears |-> notes])
         [] Left("sweep") = {} -> Set("sweep", [at |-> "done", clears |-> notes, ends |-> TRUE])
         [] OTHER -> Set("sweep", [at |-> "done"])
    /\ Committed

CommitOpener(o) ==
    /\ tx[o].at = "done"
    /\ rows' = (IF o = "client" THEN tx[o].waits ELSE rows) \ tx[o].out
    /\ marked' = marked \union tx[o].found
    /\ batch' = CASE tx[o].ends -> "over"
                  [] batch = "over" -> "over"
                  [] tx[o].seals -> "sealed"
                  [] OTHER -> "open"
    /\ ended' = ended + (IF tx[o].ends THEN 1 ELSE 0)
    /\ notes' = notes - tx[o].clears + (IF tx[o].note THEN 1 ELSE 0)
    /\ tx' = [tx EXCEPT ![o] = Idle]
    /\ UNCHANGED message

RollBack(t) ==
    /\ tx[t].at # "idle"
    /\ tx' = [tx EXCEPT ![t] = Idle]
    /\ Committed

Next ==
    \/ Enqueue \/ BeginCommit \/ BeginSweep \/ Sweep
    \/ \E o \in Openers : Judge(o) \/ CommitOpener(o) \/ \E m \in Members : Hold(o, m)
    \/ \E t \in Transactions : RollBack(t)
    \/ \E m \in Members :
        \/ Settle(m) \/ TakeOut(m) \/ Look(m) \/ Pass(m) \/ LookAgain(m) \/ LockBatch(m) \/ Count(m) \/ Wait(m)
        \/ CountAgain(m) \/ TimeOut(m) \/ CommitSettlement(m)

Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Members)

-----------------------------------------------------------------------------
(* What must hold. *)

\* It does not end before its last member.
NotEarly == batch = "over" => \A m \in Members : message[m] = "gone"

Once == ended <= 1

\* After its last member it has ended, unless a note leads the sweep to it, or a transaction is open.
Ended ==
    (\A m \in Members : message[m] = "gone") /\ notes = 0 /\ (\A t \in Transactions : tx[t].at = "idle")
        => batch \in {"absent", "over"}

\* No settlement waits for a client.
ClientHoldsNothing == tx["client"].at = "open" => tx["client"].held = {}
=============================================================================
