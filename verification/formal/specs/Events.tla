------------------------------- MODULE Events -------------------------------
(***************************************************************************)
(* Messages wait for one event, in steps of their handlers, and a client   *)
(* notifies it. Whichever comes first, each message goes on. A message may *)
(* come back by its time, and fail: then it backs off, and its wait is     *)
(* still kept. An operator locks messages, and a sweep does what the       *)
(* notification could not.                                                 *)
(*                                                                         *)
(* A transaction sees what is committed at each of its steps. Its own      *)
(* writes are its fields, and its commit applies them; it may roll back.   *)
(*                                                                         *)
(* Abstracted: payloads, redrives, and old snapshots.                      *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Messages

CONSTANTS
    WaitHoldsName,    \* FALSE: a message that begins to wait holds no lock of the event
    WaitLooks,        \* FALSE: it does not look for the event under that lock
    NotifyHoldsName,  \* FALSE: the notification holds no lock of the event
    BusyIsNoted,      \* FALSE: it leaves no note of a message that another transaction has locked
    OnlyParked        \* FALSE: it wakes a message that was leased since it began to wait, too

VARIABLES
    place,  \* of each message: leased | parked | away (it backs off, or asks again in a second) | ready | done
    wait,   \* of each message what is kept: none | waits | came | over
    event,  \* whether it has come
    notes,  \* for the sweep
    early,  \* the messages whose back-off an event has ended
    tx      \* of each transaction: where it is, what it holds, and what it will commit

vars == <<place, wait, event, notes, early, tx>>

Openers == {"client", "sweep"}
Transactions == Messages \union Openers \union {"operator"}
Idle == [at |-> "idle", shared |-> FALSE, alone |-> FALSE, came |-> FALSE, asks |-> FALSE, tried |-> {}, locked |-> {},
         note |-> FALSE, clears |-> 0]

Init ==
    /\ place = [m \in Messages |-> "leased"]
    /\ wait = [m \in Messages |-> "none"]
    /\ event = FALSE /\ notes = 0 /\ early = {}
    /\ tx = [t \in Transactions |-> Idle]

Set(t, fields) == tx' = [tx EXCEPT ![t] = fields @@ @]
Committed == UNCHANGED <<place, wait, event, notes, early>>
Others(t) == Transactions \ {t}
Free(m) == tx[m].at = "idle" /\ \A t \in Transactions : m \notin tx[t].locked
Waits(m) == wait[m] = "waits" /\ (place[m] = "parked" \/ (~OnlyParked /\ place[m] \in {"away", "ready"}))

-----------------------------------------------------------------------------
(* The worker gives a message back that begins to wait. *)

Begin(m) ==
    /\ place[m] = "leased" /\ wait[m] = "none" /\ Free(m)
    /\ Set(m, [at |-> "begins"])
    /\ Committed

\* It only tries: a settlement waits for nobody.
TryName(m) ==
    /\ tx[m].at = "begins"
    /\ IF WaitHoldsName /\ \E o \in Others(m) : tx[o].alone
       THEN Set(m, [at |-> "done", asks |-> TRUE])
       ELSE Set(m, [at |-> "looks", shared |-> WaitHoldsName])
    /\ Committed

Look(m) ==
    /\ tx[m].at = "looks"
    /\ Set(m, [at |-> "done", came |-> event /\ WaitLooks])
    /\ Committed

CommitWait(m) ==
    /\ tx[m].at = "done"
    /\ place' = [place EXCEPT ![m] = IF tx[m].asks THEN "away" ELSE IF tx[m].came THEN "ready" ELSE "parked"]
    /\ wait' = [wait EXCEPT ![m] = IF tx[m].asks THEN "none" ELSE IF tx[m].came THEN "came" ELSE "waits"]
    /\ tx' = [tx EXCEPT ![m] = Idle]
    /\ UNCHANGED <<event, notes, early>>

-----------------------------------------------------------------------------
(* The other life of a message. *)

TimeComes(m) ==
    /\ place[m] \in {"parked", "away"} /\ Free(m)
    /\ place' = [place EXCEPT ![m] = "ready"]
    /\ UNCHANGED <<wait, event, notes, early, tx>>

Deliver(m) ==
    /\ place[m] = "ready" /\ Free(m)
    /\ place' = [place EXCEPT ![m] = "leased"]
    /\ UNCHANGED <<wait, event, notes, early, tx>>

\* The handler comes to its wait again.
Decide(m) ==
    /\ place[m] = "leased" /\ wait[m] \in {"waits", "came"} /\ Free(m)
    /\ place' = [place EXCEPT ![m] = "done"]
    /\ wait' = [wait EXCEPT ![m] = IF @ = "came" \/ event THEN "came" ELSE "over"]
    /\ UNCHANGED <<event, notes, early, tx>>

\* Or fails before that.
Fail(m) ==
    /\ place[m] = "leased" /\ Free(m)
    /\ place' = [place EXCEPT ![m] = "away"]
    /\ UNCHANGED <<wait, event, notes, early, tx>>

Hold(m) ==
    /\ tx["operator"].at = "idle" /\ Free(m)
    /\ Set("operator", [at |-> "holds", locked |-> {m}])
    /\ Committed

-----------------------------------------------------------------------------
(* The notification, and the sweep that looks again. *)

NameIsFree(o) == \A t \in Others(o) : ~tx[t].shared /\ ~tx[t].alone

Notify ==
    /\ tx["client"].at = "idle" /\ ~event
    /\ NotifyHoldsName => NameIsFree("client")
    /\ Set("client", [at |-> "wakes", alone |-> NotifyHoldsName])
    /\ Committed

Sweep ==
    /\ tx["sweep"].at = "idle" /\ notes > 0 /\ NameIsFree("sweep")
    /\ Set("sweep", [at |-> IF event THEN "wakes" ELSE "done", alone |-> TRUE, clears |-> notes])
    /\ Committed

\* The rows are locked one by one, and those that are locked are skipped.
Lock(o, m) ==
    /\ tx[o].at = "wakes" /\ m \notin tx[o].tried
    /\ Set(o, [tried |-> tx[o].tried \union {m},
               locked |-> tx[o].locked \union (IF Waits(m) /\ Free(m) THEN {m} ELSE {})])
    /\ Committed

LookForBusy(o) ==
    /\ tx[o].at = "wakes" /\ tx[o].tried = Messages
    /\ Set(o, [at |-> "done", note |-> BusyIsNoted /\ \E m \in Messages \ tx[o].locked : Waits(m)])
    /\ Committed

CommitOpener(o) ==
    /\ tx[o].at = "done"
    /\ event' = (event \/ o = "client")
    /\ place' = [m \in Messages |-> IF m \in tx[o].locked THEN "ready" ELSE place[m]]
    /\ wait' = [m \in Messages |-> IF m \in tx[o].locked THEN "came" ELSE wait[m]]
    /\ early' = early \union {m \in tx[o].locked : place[m] = "away"}
    /\ notes' = notes - tx[o].clears + (IF tx[o].note THEN 1 ELSE 0)
    /\ tx' = [tx EXCEPT ![o] = Idle]

RollBack(t) ==
    /\ tx[t].at # "idle"
    /\ tx' = [tx EXCEPT ![t] = Idle]
    /\ Committed

Next ==
    \/ Notify \/ Sweep
    \/ \E o \in Openers : LookForBusy(o) \/ CommitOpener(o) \/ \E m \in Messages : Lock(o, m)
    \/ \E t \in Transactions : RollBack(t)
    \/ \E m \in Messages :
        \/ Begin(m) \/ TryName(m) \/ Look(m) \/ CommitWait(m)
        \/ TimeComes(m) \/ Deliver(m) \/ Decide(m) \/ Fail(m) \/ Hold(m)

Spec == Init /\ [][Next]_vars
Symmetry == Permutations(Messages)

-----------------------------------------------------------------------------
(* What must hold. *)

\* A message that waits for an event which has come is not left, unless a note leads the sweep to it, or a transaction is
\* open.
GoesOn ==
    event /\ notes = 0 /\ (\A t \in Transactions : tx[t].at = "idle")
        => \A m \in Messages : ~(place[m] = "parked" /\ wait[m] = "waits")

\* An event ends no back-off.
BackOffKept == early = {}
=============================================================================
