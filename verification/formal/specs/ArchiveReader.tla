--------------------------- MODULE ArchiveReader ---------------------------
(***************************************************************************)
(* Transactions that archive messages, and a reader that brings each row   *)
(* to the lake once: docs/explanation/exactly-once-export.md.              *)
(*                                                                         *)
(* A transaction archives one message. It has its message's id from a      *)
(* sequence, takes its own number (xid) when it writes, and commits or     *)
(* rolls back later, in any order. With synchronous_commit = off a commit  *)
(* is seen before it is on disk, and a crash of the server takes it back,  *)
(* with its number.                                                        *)
(*                                                                         *)
(* Each guard is a constant: TRUE is what the export does.                 *)
(*                                                                         *)
(* Abstracted: files, ranges of blocks, tasks that are tried again (they   *)
(* return the same rows or none), and the number of the transaction that   *)
(* the reader itself commits.                                              *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
    Transactions, Partitions, MaxServerCrashes, MaxReaderCrashes,
    Drops  \* whether retention drops rows

CONSTANTS
    ByXid,             \* FALSE: the reader goes by the largest id that it has seen
    HorizonOfRunning,  \* FALSE: it reads up to the newest number, not to the oldest that still runs
    WaitsForDisk,      \* FALSE: it does not wait until what it has seen is on disk
    OneConnection,     \* FALSE: it connects anew between looking and waiting
    OneCommit,         \* FALSE: rows and horizon reach the lake one after the other
    KeptUntilExported  \* FALSE: retention drops rows that the lake does not have

VARIABLES
    tx,        \* each transaction: phase, id of its message, xid, partition of the archive
    nextId, nextXid,
    onDisk,    \* the transactions whose commits a crash does not take back
    diskXid,   \* the first number that a crash may give again
    crashes, readerCrashes,
    reader,    \* phase, the bound of this run, partitions to read, rows read
    cursor,    \* where the next run begins
    lake       \* how often each transaction's row is there

vars == <<tx, nextId, nextXid, onDisk, diskXid, crashes, readerCrashes, reader, cursor, lake>>

Asleep == [phase |-> "asleep", bound |-> 0, left |-> {}, rows |-> {}]

Init ==
    /\ tx = [t \in Transactions |-> [phase |-> "new", id |-> 0, xid |-> 0, partition |-> "none"]]
    /\ nextId = 1 /\ nextXid = 1
    /\ onDisk = {} /\ diskXid = 1
    /\ crashes = 0 /\ readerCrashes = 0
    /\ reader = Asleep /\ cursor = 1
    /\ lake = [t \in Transactions |-> 0]

-----------------------------------------------------------------------------
Server == <<onDisk, diskXid, crashes>>
Reading == <<reader, readerCrashes, cursor, lake>>

\* Ids matter only to a reader that goes by them.
TakeId(t) ==
    /\ ~ByXid /\ tx[t].phase = "new"
    /\ tx' = [tx EXCEPT ![t].phase = "enqueued", ![t].id = nextId]
    /\ nextId' = nextId + 1
    /\ UNCHANGED <<nextXid, Server, Reading>>

Archive(t) ==
    /\ tx[t].phase = IF ByXid THEN "new" ELSE "enqueued"
    /\ \E p \in Partitions : tx' = [tx EXCEPT ![t].phase = "open", ![t].xid = nextXid, ![t].partition = p]
    /\ nextXid' = nextXid + 1
    /\ UNCHANGED <<nextId, Server, Reading>>

End(t) ==
    /\ tx[t].phase = "open"
    /\ \E phase \in {"committed", "gone"} : tx' = [tx EXCEPT ![t].phase = phase]
    /\ UNCHANGED <<nextId, nextXid, Server, Reading>>

Committed == {t \in Transactions : tx[t].phase = "committed"}

Kept == {t \in Transactions : tx[t].phase \in {"committed", "dropped"}}
Flush == onDisk' = Kept /\ diskXid' = nextXid
WriteToDisk == MaxServerCrashes > 0 /\ Flush /\ UNCHANGED <<tx, nextId, nextXid, crashes, Reading>>

\* Open transactions roll back; those that were not on disk were never committed. Connected clients see it.
ServerCrash ==
    /\ crashes < MaxServerCrashes
    /\ crashes' = crashes + 1
    /\ tx' = [t \in Transactions |->
        IF tx[t].phase = "open" \/ (tx[t].phase = "committed" /\ t \notin onDisk) THEN [tx[t] EXCEPT !.phase = "gone"] ELSE tx[t]]
    /\ nextXid' = diskXid
    /\ reader' = IF reader.phase = "waiting" /\ OneConnection THEN Asleep ELSE reader
    /\ UNCHANGED <<nextId, onDisk, diskXid, readerCrashes, cursor, lake>>

Drop(t) ==
    /\ Drops /\ tx[t].phase = "committed" /\ (t \in onDisk \/ MaxServerCrashes = 0)
    /\ KeptUntilExported => lake[t] = 1
    /\ tx' = [tx EXCEPT ![t].phase = "dropped"]
    /\ UNCHANGED <<nextId, nextXid, Server, Reading>>

-----------------------------------------------------------------------------
Least(numbers) == CHOOSE n \in numbers : \A o \in numbers : n <= o
Largest(numbers) == CHOOSE n \in numbers : \A o \in numbers : n >= o
Running == {tx[t].xid : t \in {u \in Transactions : tx[u].phase = "open"}}
Horizon == IF HorizonOfRunning THEN Least(Running \cup {nextXid}) ELSE nextXid
Key(t) == IF ByXid THEN tx[t].xid ELSE tx[t].id
Bound == IF ByXid THEN Horizon ELSE Largest({tx[t].id : t \in Committed} \cup {0}) + 1

Look ==
    /\ reader.phase = "asleep"
    /\ reader' = [phase |-> IF WaitsForDisk THEN "waiting" ELSE "reading", bound |-> Bound, left |-> Partitions, rows |-> {}]
    /\ UNCHANGED <<tx, nextId, nextXid, Server, readerCrashes, cursor, lake>>

\* A small transaction of its own, committed with synchronous_commit = on: all that is before it is on disk, too.
WaitForDisk ==
    /\ reader.phase = "waiting"
    /\ reader' = [reader EXCEPT !.phase = "reading"]
    /\ Flush
    /\ UNCHANGED <<tx, nextId, nextXid, crashes, readerCrashes, cursor, lake>>

\* One statement a partition: what is committed between them may be seen by the later ones.
ReadPartition(p) ==
    /\ reader.phase = "reading" /\ p \in reader.left
    /\ reader' = [reader EXCEPT !.left = @ \ {p},
        !.rows = @ \cup {t \in Committed : tx[t].partition = p /\ cursor <= Key(t) /\ Key(t) < reader.bound}]
    /\ UNCHANGED <<tx, nextId, nextXid, Server, readerCrashes, cursor, lake>>

Add(rows) == [t \in Transactions |-> IF t \in rows THEN lake[t] + 1 ELSE lake[t]]

CommitToLake ==
    /\ reader.phase = "reading" /\ reader.left = {}
    /\ lake' = Add(reader.rows)
    /\ IF OneCommit
       THEN cursor' = reader.bound /\ reader' = Asleep
       ELSE cursor' = cursor /\ reader' = [reader EXCEPT !.phase = "telling"]
    /\ UNCHANGED <<tx, nextId, nextXid, Server, readerCrashes>>

TellCursor ==
    /\ reader.phase = "telling"
    /\ cursor' = reader.bound /\ reader' = Asleep
    /\ UNCHANGED <<tx, nextId, nextXid, Server, readerCrashes, lake>>

\* The next run removes the files that it had staged.
ReaderCrash ==
    /\ reader.phase # "asleep" /\ readerCrashes < MaxReaderCrashes
    /\ readerCrashes' = readerCrashes + 1
    /\ reader' = Asleep
    /\ UNCHANGED <<tx, nextId, nextXid, Server, cursor, lake>>

-----------------------------------------------------------------------------
Read == Look \/ WaitForDisk \/ (\E p \in Partitions : ReadPartition(p)) \/ CommitToLake \/ TellCursor
Next ==
    \/ \E t \in Transactions : TakeId(t) \/ Archive(t) \/ End(t) \/ Drop(t)
    \/ WriteToDisk \/ ServerCrash
    \/ Read \/ ReaderCrash
Symmetry == Permutations(Transactions) \cup Permutations(Partitions)
Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ WF_vars(Read) /\ \A t \in Transactions : WF_vars(End(t))

-----------------------------------------------------------------------------
(* What must hold. *)

NoDouble == \A t \in Transactions : lake[t] <= 1
NoSkip == \A t \in Kept : Key(t) < cursor => lake[t] >= 1
NoPhantom == \A t \in Transactions : lake[t] > 0 => t \in Kept
NothingDroppedUnread == \A t \in Transactions : tx[t].phase = "dropped" => lake[t] >= 1
Arrives == \A t \in Transactions : tx[t].phase = "committed" ~> (lake[t] >= 1 \/ tx[t].phase = "gone")
=============================================================================
