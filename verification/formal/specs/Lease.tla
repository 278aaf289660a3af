------------------------------- MODULE Lease -------------------------------
(***************************************************************************)
(* Leases and settlement: pgqueue_dequeue, _heartbeat, _complete, _retry,  *)
(* _defer, _dead_letter, _cancel, _promote and _sweep, for one channel     *)
(* with a max_concurrency; and what a supervisor does when a worker dies.  *)
(*                                                                         *)
(* Each guard of the SQL is a constant: TRUE is what the SQL does.         *)
(*                                                                         *)
(* Abstracted: time (a lease may expire at any moment, a scheduled message *)
(* may be due at any moment), batches (who holds three messages is three   *)
(* workers), order and fairness within and between channels, wake-ups.     *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Messages, Workers, Sweepers,
    Free,          \* no worker's: a lock, and the message of a worker that has none
    MaxAttempts,
    MaxDefers,     \* how often a message is deferred or given back, at most
    Limit,         \* max_concurrency of the channel
    MaxFailovers,  \* to a standby that lacks the last commits
    Cancels,       \* whether messages are cancelled
    Supervised     \* whether a supervisor ends the leases of a worker that died; it sees which of them had begun

CONSTANTS
    RandomTokens,     \* FALSE: the token is the number of the attempt
    FencedSettle,     \* FALSE: settling goes by the id alone
    FencedSweep,      \* FALSE: the sweep goes by the id that it has read
    LockedSweep,      \* FALSE: the sweep reads without FOR UPDATE
    ClockedSweep,     \* FALSE: the sweep does not look at lease_expires_at
    RetokenedSweep,   \* FALSE: the sweep buries under the token of the dead worker
    LockedClaim,      \* FALSE: the dequeue picks messages without FOR UPDATE
    LockedLane,       \* FALSE: the dequeue counts leases without the lane's lock
    CountedAtClaim,   \* FALSE: the attempt is counted when it has failed
    DerivedOccupancy, \* FALSE: leases are counted up and down, down also by a settlement that is refused
    AtomicArchive,    \* FALSE: archive and delete in two transactions
    BegunCounts       \* FALSE: what a dead worker had begun and not settled is given back, as if it had not begun

VARIABLES
    db,        \* the rows of each message, in all tables
    worker,    \* what each worker believes and does
    lock,      \* row locks of messages
    lane,      \* the lock of the channel's lane
    sweep,     \* what each sweeper has read
    issued,    \* tokens given so far; random ones are not given twice, whatever a failover takes back
    counter,   \* of leases; unused while occupancy is derived
    standby,   \* what a standby has of db
    failovers

vars == <<db, worker, lock, lane, sweep, issued, counter, standby, failovers>>

None == 0  \* no token, and one that no worker has
NoRow == [
    status |-> "absent", attempts |-> 0, max |-> MaxAttempts, token |-> None, settled |-> None, expired |-> FALSE, cancelled |-> FALSE,
    ends |-> <<>>,        \* outcome rows: archive and dead letters
    by |-> {},            \* ghost: the tokens whose holders have settled it
    delivered |-> 0,      \* ghost: deliveries, but for those that were deferred
    runs |-> 0,           \* ghost: how often its handler began, but for those that deferred; counted under a supervisor
    defers |-> 0]
Idle == [phase |-> "idle", message |-> Free, token |-> None, how |-> "none", begun |-> FALSE]
Verbs == {"complete", "retry", "defer", "dead_letter"}

Init ==
    /\ db = [m \in Messages |-> NoRow]
    /\ worker = [w \in Workers |-> Idle]
    /\ lock = [m \in Messages |-> Free]
    /\ lane = Free
    /\ sweep = [s \in Sweepers |-> Idle]
    /\ issued = [m \in Messages |-> 0]
    /\ counter = 0
    /\ standby = <<>>
    /\ failovers = 0

Live(m) == db[m].status \in {"ready", "scheduled", "leased"}
Leased == {m \in Messages : db[m].status = "leased"}
Occupied == IF DerivedOccupancy THEN Cardinality(Leased) ELSE counter
Less(n) == IF n > 0 THEN n - 1 ELSE 0
Unchanged == UNCHANGED <<issued, standby, failovers>>

-----------------------------------------------------------------------------
(* Enqueue, promote, cancel: one statement each. *)

Create(m) ==
    /\ db[m].status = "absent"
    /\ \E status \in {"ready", "scheduled"} : db' = [db EXCEPT ![m].status = status]
    /\ UNCHANGED <<worker, lock, lane, sweep, counter>> /\ Unchanged

Promote(m) ==
    /\ db[m].status = "scheduled" /\ lock[m] = Free
    /\ db' = [db EXCEPT ![m].status = "ready"]
    /\ UNCHANGED <<worker, lock, lane, sweep, counter>> /\ Unchanged

Ended(row, outcome, token) ==
    [row EXCEPT !.status = "gone", !.token = None, !.expired = FALSE, !.cancelled = FALSE,
        !.ends = Append(@, [outcome |-> outcome, token |-> token])]

\* A waiting message goes to the archive (so do cancel and purge); the holder of a leased one is asked to stop.
Cancel(m) ==
    /\ Cancels /\ Live(m) /\ lock[m] = Free
    /\ db' = [db EXCEPT ![m] = IF @.status = "leased" THEN [@ EXCEPT !.cancelled = TRUE] ELSE Ended(@, "cancelled", None)]
    /\ UNCHANGED <<worker, lock, lane, sweep, counter>> /\ Unchanged

-----------------------------------------------------------------------------
(* Dequeue: lock the lane, count the leases, lock a message; then lease it. Both locks are SKIP LOCKED. *)

ClaimBegin(w, m) ==
    /\ worker[w].phase = "idle"
    /\ LockedLane => lane = Free
    /\ Occupied < Limit
    /\ db[m].status = "ready"
    /\ LockedClaim => lock[m] = Free
    /\ worker' = [worker EXCEPT ![w] = [Idle EXCEPT !.phase = "claiming", !.message = m]]
    /\ lane' = IF LockedLane THEN w ELSE lane
    /\ lock' = IF LockedClaim THEN [lock EXCEPT ![m] = w] ELSE lock
    /\ UNCHANGED <<db, sweep, counter>> /\ Unchanged

Given(m) == IF RandomTokens THEN issued[m] + 1 ELSE db[m].attempts + 1

\* UPDATE … WHERE id = ANY (…): that the messages are still ready is known by their locks alone.
ClaimCommit(w) ==
    LET m == worker[w].message IN
    /\ worker[w].phase = "claiming" /\ lock[m] \in {Free, w} /\ Live(m)
    /\ db' = [db EXCEPT ![m] = [@ EXCEPT
        !.status = "leased", !.token = Given(m), !.expired = FALSE,
        !.attempts = IF CountedAtClaim THEN @ + 1 ELSE @, !.delivered = @ + 1]]
    /\ issued' = [issued EXCEPT ![m] = IF RandomTokens THEN @ + 1 ELSE @]
    /\ worker' = [worker EXCEPT ![w].phase = "holding", ![w].token = Given(m)]
    /\ lock' = [lock EXCEPT ![m] = Free]
    /\ lane' = IF lane = w THEN Free ELSE lane
    /\ counter' = IF DerivedOccupancy THEN counter ELSE counter + 1
    /\ UNCHANGED <<sweep, standby, failovers>>

-----------------------------------------------------------------------------
(* Heartbeat and settlement: WHERE id AND lease_token match, looked at again after a wait for the row's lock. *)

Holds(w) == worker[w].phase \in {"holding", "unsure"}
Matches(w) ==
    LET m == worker[w].message IN
    IF FencedSettle THEN db[m].status = "leased" /\ db[m].token = worker[w].token ELSE Live(m)

Expire(m) ==
    /\ db[m].status = "leased" /\ ~db[m].expired
    /\ db' = [db EXCEPT ![m].expired = TRUE]
    /\ UNCHANGED <<worker, lock, lane, sweep, counter>> /\ Unchanged

Heartbeat(w) ==
    LET m == worker[w].message IN
    /\ Holds(w) /\ lock[m] = Free /\ db[m].status = "leased" /\ db[m].token = worker[w].token
    /\ db' = [db EXCEPT ![m].expired = FALSE]
    /\ UNCHANGED <<worker, lock, lane, sweep, counter>> /\ Unchanged

\* The handler begins, whether or not the lease is still there.
Run(w) ==
    /\ Supervised /\ worker[w].phase = "holding" /\ ~worker[w].begun
    /\ worker' = [worker EXCEPT ![w].begun = TRUE]
    /\ db' = [db EXCEPT ![worker[w].message].runs = @ + 1]
    /\ UNCHANGED <<lock, lane, sweep, counter>> /\ Unchanged

SettleBegin(w, how) ==
    LET m == worker[w].message IN
    /\ Holds(w) /\ lock[m] = Free /\ Matches(w)
    /\ Supervised => worker[w].begun
    /\ how = "defer" => db[m].defers < MaxDefers
    /\ worker' = [worker EXCEPT ![w].phase = "settling", ![w].how = how]
    /\ lock' = [lock EXCEPT ![m] = w]
    /\ UNCHANGED <<db, lane, sweep, counter>> /\ Unchanged

\* LeaseLost, or the answer that this lease has settled it before.
Refused(w) ==
    /\ Holds(w) /\ lock[worker[w].message] = Free /\ ~Matches(w)
    /\ worker' = [worker EXCEPT ![w] = Idle]
    /\ counter' = IF DerivedOccupancy THEN counter ELSE Less(counter)
    /\ UNCHANGED <<db, lock, lane, sweep>> /\ Unchanged

Waiting(row, status) ==
    [row EXCEPT !.status = status, !.token = None, !.settled = row.token, !.expired = FALSE]

\* Under the retry policy. ``token``: what an outcome row gets.
Retried(row, token) ==
    LET counted == IF CountedAtClaim THEN row ELSE [row EXCEPT !.attempts = @ + 1] IN
    CASE row.cancelled -> Ended(counted, "cancelled", token)
      [] ~row.cancelled /\ counted.attempts >= row.max -> Ended(counted, "dead", token)
      [] OTHER -> Waiting(counted, "scheduled")

Settled(row, how) ==
    CASE how = "complete" -> Ended(row, "completed", row.token)
      [] how = "complete as cancelled" -> Ended(row, "cancelled", row.token)
      [] how = "dead_letter" -> Ended(row, "dead", row.token)
      [] how = "retry" -> Retried(row, row.token)
      [] how \in {"defer to ready", "defer to scheduled"} ->
            IF row.cancelled THEN Ended(row, "cancelled", row.token)
            ELSE [Waiting(row, IF how = "defer to ready" THEN "ready" ELSE "scheduled") EXCEPT
                !.attempts = Less(@), !.delivered = Less(@), !.runs = Less(@), !.defers = @ + 1]

Effects(how) ==
    CASE how = "defer" -> {"defer to ready", "defer to scheduled"}
      [] how = "complete" /\ Cancels -> {"complete", "complete as cancelled"}
      [] OTHER -> {how}

\* The answer may not arrive: then the worker is unsure, and asks again.
SettleCommit(w) ==
    LET m == worker[w].message IN
    /\ worker[w].phase = "settling"
    /\ \E effect \in Effects(worker[w].how) :
        LET after == [Settled(db[m], effect) EXCEPT !.by = @ \cup {worker[w].token}] IN
        IF ~AtomicArchive /\ worker[w].how = "complete"
        THEN /\ db' = [db EXCEPT ![m].ends = after.ends, ![m].by = after.by]
             /\ worker' = [worker EXCEPT ![w].phase = "deleting"]
        ELSE /\ db' = [db EXCEPT ![m] = after]
             /\ \E next \in {Idle, [worker[w] EXCEPT !.phase = "unsure", !.how = "none"]} :
                worker' = [worker EXCEPT ![w] = next]
    /\ lock' = [lock EXCEPT ![m] = Free]
    /\ counter' = IF DerivedOccupancy THEN counter ELSE Less(counter)
    /\ UNCHANGED <<lane, sweep>> /\ Unchanged

\* The second transaction, where there are two.
Delete(w) ==
    LET m == worker[w].message IN
    /\ worker[w].phase = "deleting" /\ lock[m] = Free
    /\ db' = IF db[m].token = worker[w].token THEN [db EXCEPT ![m].status = "gone", ![m].token = None] ELSE db
    /\ worker' = [worker EXCEPT ![w] = Idle]
    /\ UNCHANGED <<lock, lane, sweep, counter>> /\ Unchanged

\* A kill, or a cut connection: what is not committed is rolled back, and its locks go. Its supervisor may die with it.
Crash(w) ==
    /\ worker[w].phase \notin {"idle", "dead"}
    /\ \E next \in {Idle} \cup (IF Supervised /\ worker[w].token # None
                                THEN {[worker[w] EXCEPT !.phase = "dead", !.how = "none"]} ELSE {}) :
        worker' = [worker EXCEPT ![w] = next]
    /\ lock' = [m \in Messages |-> IF lock[m] = w THEN Free ELSE lock[m]]
    /\ lane' = IF lane = w THEN Free ELSE lane
    /\ UNCHANGED <<db, sweep, counter>> /\ Unchanged

\* A message that was never started has spent no attempt.
GivenBack(row) ==
    IF row.cancelled THEN Ended(row, "cancelled", row.token)
    ELSE [Waiting(row, "ready") EXCEPT !.attempts = Less(@), !.delivered = Less(@), !.defers = @ + 1]

\* The supervisor ends the lease of a dead worker, without waiting until it expires.
Reclaim(w) ==
    LET m == worker[w].message
        counts == worker[w].begun /\ BegunCounts
        after == IF counts THEN Retried(db[m], db[m].token) ELSE GivenBack(db[m])
    IN
    /\ worker[w].phase = "dead" /\ lock[m] = Free
    /\ Matches(w) => counts \/ db[m].defers < MaxDefers
    /\ db' = IF Matches(w) THEN [db EXCEPT ![m] = [after EXCEPT !.by = @ \cup {worker[w].token}]] ELSE db
    /\ worker' = [worker EXCEPT ![w] = Idle]
    /\ counter' = IF DerivedOccupancy THEN counter ELSE Less(counter)
    /\ UNCHANGED <<lock, lane, sweep>> /\ Unchanged

-----------------------------------------------------------------------------
(* The sweep: SELECT … FOR UPDATE SKIP LOCKED of what expired, then pgqueue_retry with the tokens that it read. *)

SweepRead(s, m) ==
    /\ sweep[s].phase = "idle"
    /\ db[m].status = "leased" /\ (ClockedSweep => db[m].expired)
    /\ LockedSweep => lock[m] = Free
    /\ sweep' = [sweep EXCEPT ![s] = [Idle EXCEPT !.phase = "read", !.message = m, !.token = db[m].token]]
    /\ lock' = IF LockedSweep THEN [lock EXCEPT ![m] = s] ELSE lock
    /\ UNCHANGED <<db, worker, lane, counter>> /\ Unchanged

Swept(row) == [Retried(row, IF RetokenedSweep THEN None ELSE row.token) EXCEPT !.settled = row.settled]

SweepAct(s) ==
    LET m == sweep[s].message
        found == IF FencedSweep THEN db[m].status = "leased" /\ db[m].token = sweep[s].token ELSE Live(m)
    IN
    /\ sweep[s].phase = "read" /\ lock[m] \in {Free, s}
    /\ db' = IF found THEN [db EXCEPT ![m] = Swept(@)] ELSE db
    /\ counter' = IF found /\ ~DerivedOccupancy THEN Less(counter) ELSE counter
    /\ lock' = [lock EXCEPT ![m] = Free]
    /\ sweep' = [sweep EXCEPT ![s] = Idle]
    /\ UNCHANGED <<worker, lane>> /\ Unchanged

-----------------------------------------------------------------------------
(* Failover to a standby that has what was committed up to some moment. Workers keep the tokens that they have. *)

Replicate ==
    /\ failovers < MaxFailovers /\ standby = <<>>
    /\ standby' = db
    /\ UNCHANGED <<db, worker, lock, lane, sweep, issued, counter, failovers>>

Failover ==
    /\ standby # <<>>
    /\ db' = standby
    /\ standby' = <<>>
    /\ failovers' = failovers + 1
    /\ worker' = [w \in Workers |->
        CASE worker[w].phase \in {"settling", "deleting"} -> [worker[w] EXCEPT !.phase = "unsure", !.how = "none"]
          [] worker[w].phase = "claiming" -> Idle
          [] OTHER -> worker[w]]
    /\ lock' = [m \in Messages |-> Free]
    /\ lane' = Free
    /\ sweep' = [s \in Sweepers |-> Idle]
    /\ UNCHANGED <<issued, counter>>

-----------------------------------------------------------------------------
Next ==
    \/ \E m \in Messages : Create(m) \/ Promote(m) \/ Cancel(m) \/ Expire(m)
    \/ \E w \in Workers :
        \/ \E m \in Messages : ClaimBegin(w, m)
        \/ ClaimCommit(w)
        \/ Heartbeat(w)
        \/ \E how \in Verbs : SettleBegin(w, how)
        \/ SettleCommit(w)
        \/ Refused(w)
        \/ Delete(w)
        \/ Crash(w)
        \/ Run(w)
        \/ Reclaim(w)
    \/ \E s \in Sweepers : SweepAct(s) \/ \E m \in Messages : SweepRead(s, m)
    \/ Replicate
    \/ Failover

\* Handlers end or crash, a dequeue commits in the end, a sweep and a promotion run.
Finish(w) == (\E how \in Verbs : SettleBegin(w, how)) \/ Refused(w) \/ Crash(w)
Fairness ==
    /\ \A m \in Messages :
        /\ WF_vars(Promote(m)) /\ WF_vars(Expire(m))
        /\ SF_vars(\E w \in Workers : ClaimBegin(w, m))
        /\ SF_vars(\E w \in Workers : worker[w].message = m /\ ClaimCommit(w))
        /\ SF_vars(\E s \in Sweepers : SweepRead(s, m))
    /\ \A w \in Workers : WF_vars(Finish(w)) /\ WF_vars(SettleCommit(w)) /\ WF_vars(Delete(w))
    /\ \A s \in Sweepers : WF_vars(SweepAct(s))

Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ Fairness
Symmetry == Permutations(Messages) \cup Permutations(Workers) \cup Permutations(Sweepers)

-----------------------------------------------------------------------------
(* What must hold. *)

\* C3: a message is live, or has one outcome; never both, never neither, never two.
OnePlace == \A m \in Messages :
    /\ Live(m) => db[m].ends = <<>>
    /\ db[m].status = "gone" => Len(db[m].ends) = 1

\* C4: no two workers hold tokens that the database takes for the same message.
OneHolder == \A v, w \in Workers :
    LET valid(u) == worker[u].token # None /\ worker[u].message # Free /\ Matches(u) IN
    v # w /\ worker[v].message = worker[w].message => ~(valid(v) /\ valid(w))

\* C4: before it expires, a lease is ended by its holder alone.
LeaseKept == [][
    failovers' = failovers =>
        \A m \in Messages :
            db[m].status = "leased" /\ ~db[m].expired /\ ~(db'[m].status = "leased" /\ db'[m].token = db[m].token)
            => \E w \in Workers :
                /\ worker[w].phase \in {"settling", "deleting", "dead"} /\ worker'[w] # worker[w]
                /\ worker[w].message = m /\ worker[w].token = db[m].token]_vars

\* C5: deliveries, crashes included, are as many as allowed.
Deliveries == \A m \in Messages : db[m].delivered <= db[m].max

\* C5: handlers begin as often as allowed, also if the processes in which they run die.
Runs == \A m \in Messages : db[m].runs <= db[m].max

\* C7: leases of the channel.
LimitHolds == Cardinality(Leased) <= Limit

\* pgqueue_settled_before: its answer to a worker that asks again is true.
SettledBefore(m, token) ==
    \/ \E place \in 1..Len(db[m].ends) : db[m].ends[place].token = token
    \/ Live(m) /\ db[m].settled = token
AnswersAreTrue == \A w \in Workers :
    Holds(w) /\ SettledBefore(worker[w].message, worker[w].token) => worker[w].token \in db[worker[w].message].by

\* Every message ends.
Ends == \A m \in Messages : db[m].status # "absent" ~> db[m].status = "gone"
=============================================================================
