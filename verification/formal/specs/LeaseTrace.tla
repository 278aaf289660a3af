----------------------------- MODULE LeaseTrace -----------------------------
(***************************************************************************)
(* Is what a server has done a behaviour of Lease? Each history is a list  *)
(* of changes of rows, commit by commit, as triggers have recorded them;   *)
(* each must be the effect of an action of Lease. Steps without a trace in *)
(* the tables (locks, expiry, what a worker knows) are filled in, and only *)
(* where the next commit needs them.                                       *)
(*                                                                         *)
(* verification/formal/follow.py writes the histories, and reads from the  *)
(* output how far each went.                                               *)
(***************************************************************************)
EXTENDS Lease, Integers

CONSTANT Histories

VARIABLES history, position

allVars == <<vars, history, position>>

\* rows: of each message at the beginning; holders: of each worker, the message that it holds then, or 0.
Start == Histories[history]
Events == Histories[history].events
Coming == Events[position]
Sweeper == CHOOSE s \in Sweepers : TRUE

FromRow(row) == [NoRow EXCEPT
    !.status = row.status, !.attempts = row.attempts, !.max = row.max, !.token = row.token, !.delivered = row.attempts]
Holding(m, row) == [Idle EXCEPT !.phase = "holding", !.message = m, !.token = row.token]

TraceInit ==
    /\ history \in 1..Len(Histories) /\ position = 1
    /\ db = [m \in Messages |-> FromRow(Start.rows[m])]
    /\ worker = [w \in Workers |->
        IF Start.holders[w] = 0 THEN Idle ELSE Holding(Start.holders[w], Start.rows[Start.holders[w]])]
    /\ issued = [m \in Messages |-> Start.rows[m].token]
    /\ lock = [m \in Messages |-> Free]
    /\ lane = Free /\ sweep = [s \in Sweepers |-> Idle]
    /\ counter = 0 /\ standby = <<>> /\ failovers = 0

\* The row of message m afterwards, as the triggers saw it.
Seen(e) ==
    LET row == db'[e.message] IN
    /\ row.status = e.status
    /\ row.token = e.token
    /\ row.attempts = e.attempts
    /\ [place \in 1..Len(row.ends) |-> <<row.ends[place].outcome, row.ends[place].token>>] = e.ends
    /\ e.status \in {"ready", "scheduled"} => row.settled = e.settled

HoldersOf(m) == {w \in Workers : Holds(w) /\ worker[w].message = m /\ worker[w].token = db[m].token}

Act(e) ==
    \/ Create(e.message)
    \/ Promote(e.message)
    \/ Cancel(e.message)
    \/ e.by # 0 /\ ClaimCommit(e.by) /\ worker[e.by].message = e.message
    \/ \E w \in HoldersOf(e.message) : Heartbeat(w)
    \/ \E w \in Workers : worker[w].message = e.message /\ SettleCommit(w) /\ worker'[w] = Idle
    \/ SweepAct(Sweeper) /\ sweep[Sweeper].message = e.message

Observed ==
    /\ position <= Len(Events)
    /\ Act(Coming) /\ Seen(Coming)
    /\ position' = position + 1
    /\ UNCHANGED history

\* A lease begins: its worker, whatever it did before, takes the lane and the message.
BeforeClaim(e) ==
    /\ e.by # 0
    /\ Crash(e.by) \/ ClaimBegin(e.by, e.message)

\* A lease ends: by its holder, or by the sweep if the clock says that it has expired.
BeforeEnd(e) ==
    /\ e.by = 0 /\ db[e.message].status = "leased"
    /\ e.status = "leased" => db[e.message].token # e.token
    /\ \/ \E w \in HoldersOf(e.message), how \in Verbs : SettleBegin(w, how)
       \/ e.late /\ (Expire(e.message) \/ SweepRead(Sweeper, e.message))

Hidden ==
    /\ position <= Len(Events)
    /\ BeforeClaim(Coming) \/ BeforeEnd(Coming)
    /\ UNCHANGED <<history, position>>

TraceSpec == TraceInit /\ [][Observed \/ Hidden]_allVars

\* Once for each state: how far this history can be followed.
Tell == PrintT(<<"reached", history, position>>)
=============================================================================
