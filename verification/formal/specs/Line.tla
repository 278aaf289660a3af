-------------------------------- MODULE Line --------------------------------
(***************************************************************************)
(* Is a message that is ready always found? Arrivals and lanes: what       *)
(* enqueue leaves behind and pgqueue_take folds (pgqueue_fold), for one    *)
(* channel without limits. Each step of a dequeue is one statement: it     *)
(* sees what was committed before it, and locks with SKIP LOCKED.          *)
(*                                                                         *)
(* Each guard of the SQL is a constant: TRUE is what the SQL does.         *)
(*                                                                         *)
(* A channel keeps its lane. One with the floor NoFloor is empty: it is    *)
(* parked, out of the line, until an arrival brings it back.               *)
(*                                                                         *)
(* Abstracted: other channels and their turns, lanes that are parked with  *)
(* messages, the floors of all lanes and arrivals (pgqueue_floor). A       *)
(* message's number is its key.                                            *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS Messages, Dequeues, MaxReturns

CONSTANTS
    AlwaysTells,    \* FALSE: an enqueue behind the floor that it sees leaves no arrival
    EmptyReturns,   \* FALSE: an arrival does not bring an empty lane back
    ReturnsTell,    \* FALSE: retry, defer and promote leave no arrival
    HeldArrivalsStay, \* FALSE: arrivals of a lane that another session holds are deleted all the same
    OnlyUntouched,  \* FALSE: a lane stands in line, even if another session holds it
    OnlyCommitted,  \* FALSE: a lane stands in line, even for a message that others cannot see yet
    OneAtTheDoor,   \* FALSE: a lane is made without the advisory lock
    FreshFloor,     \* FALSE: what is left is looked for with the snapshot of the beginning
    FloorSeesLocked,\* FALSE: messages that others have locked are not seen as left
    LoneLeadsToOne, \* FALSE: a lone arrival goes with its first message, whatever else it leads to
    LoneIsLocked    \* FALSE: a lone arrival goes, also if another session has locked its message

VARIABLES
    message,   \* absent | quiet (enqueued without arrival, not committed) | own (of an open dequeue) | ready | taken | done
    returns,   \* how often it came back
    arrivals,  \* committed: the key, and a number
    lanes,     \* committed
    tx         \* of each dequeue: where it is, and what it has locked and done

vars == <<message, returns, arrivals, lanes, tx>>

NoLane == [id |-> 0, floor |-> 0]
NoFloor == 1000
Idle == [at |-> "idle", locked |-> {}, eaten |-> FALSE, lane |-> NoLane, got |-> {}, door |-> FALSE, seen |-> {},
         own |-> {}]

Init ==
    /\ message = [m \in Messages |-> "absent"]
    /\ returns = [m \in Messages |-> 0]
    /\ arrivals = {} /\ lanes = {}
    /\ tx = [d \in Dequeues |-> Idle]

Least(numbers) == CHOOSE n \in numbers : \A o \in numbers : n <= o
First(messages) == IF messages = {} THEN {} ELSE {Least(messages)}
Lower(a, b) == IF a < b THEN a ELSE b
Ready == {m \in Messages : message[m] = "ready"}
Seen(d) == Ready \cup tx[d].own
Told(d) == arrivals \cup {<<m, 0>> : m \in tx[d].own}
Left(d) == IF tx[d].eaten THEN Told(d) \ tx[d].locked ELSE Told(d)
Keys(some) == {arrival[1] : arrival \in some}
Others(d) == Dequeues \ {d}
FreeLanes(d) == {lane \in lanes : \A e \in Others(d) : tx[e].lane.id # lane.id}
InLine(some) == {lane \in some : lane.floor # NoFloor}
FreeMessages(d) == {m \in Seen(d) : \A e \in Dequeues : m \notin tx[e].got}

-----------------------------------------------------------------------------
Look(m) ==
    /\ message[m] = "absent" /\ ~AlwaysTells /\ \E lane \in lanes : lane.floor <= m
    /\ message' = [message EXCEPT ![m] = "quiet"]
    /\ UNCHANGED <<returns, arrivals, lanes, tx>>

Enqueue(m) ==
    \/ /\ message[m] = "absent"
       /\ message' = [message EXCEPT ![m] = "ready"]
       /\ arrivals' = arrivals \cup {<<m, 0>>}
       /\ UNCHANGED <<returns, lanes, tx>>
    \/ /\ message[m] = "quiet"
       /\ message' = [message EXCEPT ![m] = "ready"]
       /\ UNCHANGED <<returns, arrivals, lanes, tx>>

\* One statement brings all that are left: its arrival leads to the first of them.
EnqueueMany ==
    LET new == {m \in Messages : message[m] = "absent"} IN
    /\ Cardinality(new) > 1
    /\ message' = [m \in Messages |-> IF m \in new THEN "ready" ELSE message[m]]
    /\ arrivals' = arrivals \cup {<<Least(new), 0>>}
    /\ UNCHANGED <<returns, lanes, tx>>

Return(m) ==
    /\ message[m] = "taken" /\ returns[m] < MaxReturns
    /\ message' = [message EXCEPT ![m] = "ready"]
    /\ returns' = [returns EXCEPT ![m] = @ + 1]
    /\ arrivals' = IF ReturnsTell THEN arrivals \cup {<<m, returns[m] + 1>>} ELSE arrivals
    /\ UNCHANGED <<lanes, tx>>

Settle(m) ==
    /\ message[m] = "taken"
    /\ message' = [message EXCEPT ![m] = "done"]
    /\ UNCHANGED <<returns, arrivals, lanes, tx>>

-----------------------------------------------------------------------------
(* A dequeue, statement by statement. *)

Go(d, at) == tx' = [tx EXCEPT ![d] = at] /\ UNCHANGED <<message, returns, arrivals, lanes>>

Begin(d) ==
    /\ tx[d].at = "idle"
    /\ Go(d, [Idle EXCEPT !.at = "arrivals", !.seen = IF FreshFloor THEN {} ELSE Ready])

\* Its transaction has enqueued a message before. (A settlement and its channel are alike.)
Bring(d, m) ==
    /\ tx[d].at = "arrivals" /\ tx[d].own = {} /\ message[m] = "absent"
    /\ message' = [message EXCEPT ![m] = "own"]
    /\ tx' = [tx EXCEPT ![d].own = {m}]
    /\ UNCHANGED <<returns, arrivals, lanes>>

LockArrivals(d) ==
    LET free == {arrival \in Told(d) : \A e \in Others(d) : arrival \notin tx[e].locked} IN
    /\ tx[d].at = "arrivals"
    /\ Go(d, [tx[d] EXCEPT !.locked = free, !.at = IF free = {} THEN "line" ELSE "lane"])

\* Beside the way through LockArrivals: a lone arrival goes with its message, under the lock of its lane, which is empty and
\* stays as it is (pgqueue_receive). That nothing stands in the line is seen before.
LockLone(d) ==
    /\ tx[d].at = "arrivals" /\ Cardinality(Told(d)) = 1
    /\ \E arrival \in Told(d), lane \in FreeLanes(d) :
        /\ \A e \in Others(d) : arrival \notin tx[e].locked
        /\ lane.floor = NoFloor
        /\ Go(d, [tx[d] EXCEPT !.locked = {arrival}, !.lane = lane, !.at = "lone"])

TakeLone(d) ==
    LET leads == {m \in Seen(d) : m >= Least(Keys(tx[d].locked))}
        takes == {m \in leads : LoneLeadsToOne => Cardinality(leads) = 1}
        free == First(takes) \cap FreeMessages(d)
    IN
    /\ tx[d].at = "lone"
    /\ IF takes = {} \/ (LoneIsLocked /\ free = {})
       THEN Go(d, [tx[d] EXCEPT !.at = "fold"])
       ELSE Go(d, [tx[d] EXCEPT !.got = free, !.eaten = TRUE, !.at = "end"])

\* Another session has the lane, or is making it: the arrivals stay for the next call.
LeaveArrivals(d) == Go(d, [tx[d] EXCEPT !.at = "line", !.eaten = ~HeldArrivalsStay])

\* The lane leads to the arrivals already, and no other transaction has locked it: they are deleted without its lock.
Stands(d) ==
    \E lane \in InLine(IF OnlyUntouched THEN FreeLanes(d) ELSE lanes) :
        /\ tx[d].at = "lane" /\ lane.floor <= Least(Keys(tx[d].locked))
        /\ OnlyCommitted => tx[d].own = {}
        /\ Go(d, [tx[d] EXCEPT !.eaten = TRUE, !.at = "line"])

FindLane(d) ==
    /\ tx[d].at = "lane"
    /\ CASE FreeLanes(d) # {} -> \E lane \in FreeLanes(d) : Go(d, [tx[d] EXCEPT !.lane = lane, !.at = "fold"])
         [] lanes = {} /\ (OneAtTheDoor => \A e \in Others(d) : ~tx[e].door) ->
                Go(d, [tx[d] EXCEPT !.door = TRUE, !.at = "make"])
         [] OTHER -> LeaveArrivals(d)

Unused == Least((1..(Cardinality(Dequeues) + 1)) \ ({lane.id : lane \in lanes} \cup {tx[e].lane.id : e \in Dequeues}))

\* It is made empty. Another transaction may have made it before this one had the advisory lock.
MakeLane(d) ==
    /\ tx[d].at = "make"
    /\ IF lanes = {} THEN Go(d, [tx[d] EXCEPT !.lane = [id |-> Unused, floor |-> NoFloor], !.at = "fold"]) ELSE LeaveArrivals(d)

Fold(d) ==
    /\ tx[d].at = "fold"
    /\ Go(d, [tx[d] EXCEPT
        !.lane.floor = IF @ = NoFloor /\ ~EmptyReturns THEN @ ELSE Lower(@, Least(Keys(tx[d].locked))), !.eaten = TRUE, !.at = "line"])

LockLane(d) ==
    /\ tx[d].at = "line"
    /\ CASE tx[d].lane # NoLane /\ tx[d].lane.floor # NoFloor -> Go(d, [tx[d] EXCEPT !.at = "take"])
         [] tx[d].lane = NoLane /\ InLine(FreeLanes(d)) # {} ->
                \E lane \in InLine(FreeLanes(d)) : Go(d, [tx[d] EXCEPT !.lane = lane, !.at = "take"])
         [] OTHER -> Go(d, [tx[d] EXCEPT !.at = "shared"])

Take(d) ==
    /\ tx[d].at = "take"
    /\ Go(d, [tx[d] EXCEPT !.got = First({m \in FreeMessages(d) : m >= tx[d].lane.floor}), !.at = "floor"])

\* The new floor is the first that is left; without any, the lane is parked.
MoveFloor(d) ==
    LET seen == IF FreshFloor THEN Seen(d) ELSE tx[d].seen
        left == {m \in seen : m >= tx[d].lane.floor /\ m \notin tx[d].got /\ (FloorSeesLocked \/ m \in FreeMessages(d))}
    IN
    /\ tx[d].at = "floor"
    /\ Go(d, [tx[d] EXCEPT
        !.lane.floor = IF left = {} THEN NoFloor ELSE Least(left),
        !.at = IF tx[d].got = {} THEN "shared" ELSE "end"])

\* From lanes and arrivals that others hold: pgqueue_take_shared.
Share(d) ==
    LET floors == {lane.floor : lane \in InLine(lanes)} \cup Keys(Left(d)) IN
    /\ tx[d].at = "shared"
    /\ Go(d, [tx[d] EXCEPT !.got = First({m \in FreeMessages(d) : \E floor \in floors : m >= floor}), !.at = "end"])

Commit(d) ==
    LET mine == tx[d].lane
        rest == {lane \in lanes : lane.id # mine.id}
    IN
    /\ tx[d].at = "end"
    /\ message' = [m \in Messages |->
        IF m \in tx[d].got THEN "taken" ELSE IF m \in tx[d].own THEN "ready" ELSE message[m]]
    /\ arrivals' = Left(d)
    /\ lanes' = IF mine = NoLane THEN lanes ELSE rest \cup {mine}
    /\ tx' = [tx EXCEPT ![d] = Idle]
    /\ UNCHANGED returns

\* At the end only of one that has done something: else it is no other step than a commit.
Rollback(d) ==
    /\ tx[d].at # "idle"
    /\ tx[d].at = "end" => tx[d].got # {} \/ tx[d].eaten \/ tx[d].lane # NoLane \/ tx[d].own # {}
    /\ message' = [m \in Messages |-> IF m \in tx[d].own THEN "absent" ELSE message[m]]
    /\ tx' = [tx EXCEPT ![d] = Idle]
    /\ UNCHANGED <<returns, arrivals, lanes>>

Onward(d) ==
    \/ Begin(d) \/ LockArrivals(d) \/ LockLone(d) \/ TakeLone(d) \/ Stands(d) \/ FindLane(d) \/ MakeLane(d) \/ Fold(d)
    \/ LockLane(d) \/ Take(d) \/ MoveFloor(d) \/ Share(d) \/ Commit(d)

Next ==
    \/ \E m \in Messages : Look(m) \/ Enqueue(m) \/ Return(m) \/ Settle(m)
    \/ EnqueueMany
    \/ \E d \in Dequeues : Onward(d) \/ Rollback(d) \/ \E m \in Messages : Bring(d, m)

Spec == Init /\ [][Next]_vars
\* One day nothing is rolled back any more; dequeues go on, and what was looked at is committed.
FairSpec ==
    /\ Spec
    /\ <>[][~\E d \in Dequeues : Rollback(d)]_vars
    /\ \A d \in Dequeues : WF_vars(Onward(d))
    /\ \A m \in Messages : WF_vars(message[m] = "quiet" /\ Enqueue(m))
Symmetry == Permutations(Dequeues)

-----------------------------------------------------------------------------
(* What must hold. *)

\* Whether the open transactions commit or roll back, the next dequeue comes to it.
Found == \A m \in Ready :
    (\E arrival \in arrivals : arrival[1] <= m) \/ (\E lane \in lanes : lane.floor <= m)

OneLane == Cardinality(lanes) <= 1
TakenOnce == \A d, e \in Dequeues : d # e => tx[d].got \cap tx[e].got = {}
Served == \A m \in Messages : message[m] = "ready" ~> message[m] \in {"taken", "done"}
=============================================================================
