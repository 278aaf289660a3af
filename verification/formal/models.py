"""The configurations: each model as the queue is, and with one guard removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .tlc import Answer, Configuration, check

LEASE: dict[str, Any] = {
    "Messages": "{m1, m2}", "Workers": "{w1, w2}", "Sweepers": "{s1}", "Free": "Free",
    "MaxAttempts": 2, "MaxDefers": 1, "Limit": 1, "MaxFailovers": 0, "Cancels": False, "Supervised": False,
    "RandomTokens": True, "FencedSettle": True, "FencedSweep": True, "LockedSweep": True, "ClockedSweep": True,
    "RetokenedSweep": True, "LockedClaim": True, "LockedLane": True, "CountedAtClaim": True, "DerivedOccupancy": True,
    "AtomicArchive": True, "BegunCounts": True,
}  # fmt: skip
LOCKS: dict[str, Any] = {
    "Transactions": "{a, b}", "Free": "Free", "MaxCalls": 2,
    "FreeEnqueue": True, "SortedEnqueue": True, "TimedLateEnqueue": True, "SortedSettle": True,
    "AppendingSettle": True, "SkippingDequeue": True, "SkippingSweep": True,
    "EnqueueFirst": True, "SettleInOrder": True, "DequeueLast": True, "EditAlone": True, "OneKey": True,
}  # fmt: skip
LINE: dict[str, Any] = {
    "Messages": "{1, 2}", "Dequeues": "{d, e}", "MaxReturns": 0, "AlwaysTells": True, "ReturnsTell": True,
    "EmptyReturns": True, "HeldArrivalsStay": True, "OnlyUntouched": True, "OnlyCommitted": True,
    "OneAtTheDoor": True, "FreshFloor": True, "FloorSeesLocked": True, "LoneLeadsToOne": True, "LoneIsLocked": True,
}  # fmt: skip
TURNS: dict[str, Any] = {
    "Channels": "{a, b, c}", "Most": 2, "Weight": 1,
    "LineDecides": True, "GoesToTail": True, "FreshIsPassed": True, "FreshEnds": True,
}  # fmt: skip
KEYS: dict[str, Any] = {
    "Messages": "{1, 2, 3}", "Transactions": "{a, b}", "DeliveredFirst": True, "DequeueHoldsKey": True,
    "SeesAfterwards": True, "SettlementHolds": True, "ShortHolds": True, "ShortSeesAside": True, "HeldIsNoted": True,
    "ReaderNotes": True, "HeldNotesStay": True,
}  # fmt: skip
FLOW: dict[str, Any] = {
    "Members": "{m1, m2}", "LocksInCommit": True, "CommitHolds": True, "CommitLooks": True, "LockedIsLive": True,
    "PassingIsHeld": True, "PassingLooks": True, "LocksBatch": True, "WaitsForPassed": True, "CountsAgain": True,
    "TimeoutNotes": True, "SweepSeals": True,
}  # fmt: skip
EVENTS: dict[str, Any] = {
    "Messages": "{m1, m2}", "WaitHoldsName": True, "WaitLooks": True, "NotifyHoldsName": True, "BusyIsNoted": True,
    "OnlyParked": True,
}  # fmt: skip
READER: dict[str, Any] = {
    "Transactions": "{t1, t2, t3}", "Partitions": "{p1, p2}", "MaxServerCrashes": 0, "MaxReaderCrashes": 1,
    "Drops": True, "ByXid": True, "HorizonOfRunning": True, "WaitsForDisk": True, "OneConnection": True,
    "OneCommit": True, "KeptUntilExported": True,
}  # fmt: skip
CONSTANTS = {
    "Lease": LEASE, "Line": LINE, "Turns": TURNS, "Keys": KEYS, "Flow": FLOW, "Events": EVENTS,
    "LockOrder": LOCKS, "ArchiveReader": READER,
}  # fmt: skip
INVARIANTS = {
    "Lease": ("OnePlace", "OneHolder", "Deliveries", "Runs", "LimitHolds", "AnswersAreTrue"),
    "Line": ("Found", "OneLane", "TakenOnce"),
    "Turns": ("TwoTurns", "FreshFirst"),
    "Keys": ("OneDelivered", "Released"),
    "Flow": ("NotEarly", "Once", "Ended", "ClientHoldsNothing"),
    "Events": ("GoesOn", "BackOffKept"),
    "LockOrder": ("NoCircle", "NoCallWaitsForProducers", "SomeNeverWait", "OnlyLatecomersAreRefused"),
    "ArchiveReader": ("NoDouble", "NoSkip", "NoPhantom", "NothingDroppedUnread"),
}
STEPS = {"Lease": ("LeaseKept",)}


@dataclass(frozen=True, slots=True)
class Model:
    """``changes``: to the constants of its module. ``removed``: the guard, in plain words, and then ``breaks`` is the
    property that must not hold any more; without, everything must hold. ``lasting``: what must come in the end.
    ``slow``: too large for each run of the tests."""

    name: str
    module: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    removed: str = ""
    breaks: str | None = None
    lasting: str = ""
    slow: bool = False

    def configuration(self) -> Configuration:
        constants = {**CONSTANTS[self.module], **self.changes}
        if self.lasting:
            return Configuration(self.module, constants, "FairSpec", properties=(self.lasting,))
        invariants: tuple[str, ...] = INVARIANTS[self.module]
        steps: tuple[str, ...] = STEPS.get(self.module, ())
        if self.breaks:
            invariants = tuple(name for name in invariants if name == self.breaks)
            steps = tuple(name for name in steps if name == self.breaks)
        return Configuration(self.module, constants, "Spec", invariants, steps, "Symmetry")

    def check(self) -> Answer:
        return check(self.configuration())


def holds(name: str, module: str, *, lasting: str = "", slow: bool = False, **changes: Any) -> Model:
    return Model(name, module, changes, lasting=lasting, slow=slow)


def without(removed: str, module: str, breaks: str, *, lasting: str = "", **changes: Any) -> Model:
    return Model(removed, module, changes, removed, breaks, lasting)


MODELS = (
    holds("leases", "Lease"),
    holds("leases, with cancels and two sweepers", "Lease", Messages="{m1}", Cancels=True, Sweepers="{s1, s2}"),
    holds("leases, while the sweep locks and compares no token", "Lease", FencedSweep=False),
    holds("leases, under a supervisor", "Lease", Messages="{m1}", Supervised=True, Cancels=True),
    holds("leases, all of it", "Lease", Cancels=True, Sweepers="{s1, s2}", slow=True),
    holds("leases, three messages on two places", "Lease", Messages="{m1, m2, m3}", Limit=2, MaxDefers=0, slow=True),
    holds("leases, two messages through a failover", "Lease", MaxFailovers=1, MaxDefers=0, slow=True),
    holds("leases, through a failover", "Lease", Messages="{m1}", MaxFailovers=1),
    holds("leases: every message ends", "Lease", lasting="Ends", MaxDefers=1, Messages="{m1}"),
    without(
        "the token is random: it is the attempt, and a failover loses commits", "Lease", "OneHolder",
        RandomTokens=False, MaxFailovers=1, MaxDefers=0,
    ),
    without(
        "the token is random: it is the attempt, and a deferral gives that back", "Lease", "OneHolder",
        RandomTokens=False,
    ),
    without("settling compares the token", "Lease", "LeaseKept", FencedSettle=False),
    without("the sweep locks what it reads", "Lease", "LeaseKept", LockedSweep=False),
    without("the sweep locks, and compares the token", "Lease", "LeaseKept", LockedSweep=False, FencedSweep=False),
    without("the sweep goes by the clock", "Lease", "LeaseKept", ClockedSweep=False),
    without("the sweep dead-letters under a new token", "Lease", "AnswersAreTrue", RetokenedSweep=False),
    without("the dequeue locks messages", "Lease", "LeaseKept", LockedClaim=False, LockedLane=False, Limit=2),
    without("the dequeue locks the lane", "Lease", "LimitHolds", LockedLane=False),
    without(
        "leases are counted, not a counter that a late worker counts down", "Lease", "LimitHolds",
        DerivedOccupancy=False,
    ),
    without("the attempt is counted at the dequeue", "Lease", "Deliveries", CountedAtClaim=False),
    without("a handler that has begun counts as an attempt", "Lease", "Runs", Supervised=True, BegunCounts=False),
    without("archive and delete are one transaction", "Lease", "OnePlace", AtomicArchive=False),
    without("expired leases are swept", "Lease", "Ends", lasting="Ends", Sweepers="{}", Messages="{m1}"),
    holds("the line", "Line"),
    holds("the line, with messages that come back", "Line", MaxReturns=1, slow=True),
    holds("the line: every message is served", "Line", lasting="Served", Messages="{1}", MaxReturns=1),
    holds("the line: every message of two is served", "Line", lasting="Served", slow=True),
    without("an enqueue always leaves an arrival", "Line", "Found", AlwaysTells=False),
    without("an arrival brings an empty lane back", "Line", "Found", EmptyReturns=False),
    without("a message that comes back leaves an arrival", "Line", "Found", ReturnsTell=False, MaxReturns=1),
    without("arrivals of a held lane stay", "Line", "Found", HeldArrivalsStay=False),
    without("arrivals of a lane that stands in line go, if it is not locked", "Line", "Found", OnlyUntouched=False),
    without("and if others see the message to which they lead", "Line", "Found", OnlyCommitted=False),
    without("one transaction at a time makes a lane", "Line", "OneLane", OneAtTheDoor=False),
    without("a dequeue looks for more messages after the lock", "Line", "Found", FreshFloor=False),
    without("messages that others have locked count as left", "Line", "Found", FloorSeesLocked=False),
    without("a lone arrival leads to one message", "Line", "Found", LoneLeadsToOne=False, Messages="{1, 2, 3}"),
    without("a lone arrival stays if its message is locked", "Line", "Found", LoneIsLocked=False),
    holds("turns", "Turns"),
    holds("turns of two messages", "Turns", Channels="{a, b}", Weight=2, Most=3),
    without("the line decides, whatever a message says", "Turns", "TwoTurns", LineDecides=False),
    without("a lane goes to the tail after its turn", "Turns", "TwoTurns", GoesToTail=False),
    without("only a lane whose place has passed is fresh", "Turns", "TwoTurns", FreshIsPassed=False),
    without("a fresh lane is fresh for one turn", "Turns", "TwoTurns", FreshEnds=False),
    holds("order keys", "Keys"),
    holds("order keys, three transactions", "Keys", Transactions="{a, b, c}", slow=True),
    without("a message that was delivered is the first", "Keys", "OneDelivered", DeliveredFirst=False),
    without("a dequeue holds the key", "Keys", "OneDelivered", DequeueHoldsKey=False),
    without("a dequeue looks after it has the key", "Keys", "OneDelivered", SeesAfterwards=False),
    without("a settlement holds the key, or leaves a note", "Keys", "Released", SettlementHolds=False),
    without("a settlement holds the key on its short way", "Keys", "Released", ShortHolds=False),
    without("the short way looks whether the next message waits", "Keys", "Released", ShortSeesAside=False),
    without("a settlement that finds the next message held leaves a note", "Keys", "Released", HeldIsNoted=False),
    without("a reader of the notes does so, too", "Keys", "Released", ReaderNotes=False),
    without("a reader leaves the notes of a key that is held", "Keys", "Released", HeldNotesStay=False),
    holds("batches, and messages that wait", "Flow"),
    holds("batches, three members", "Flow", Members="{m1, m2, m3}", slow=True),
    without(
        "the commit locks what a message waits for, not the enqueue", "Flow", "ClientHoldsNothing", LocksInCommit=False,
    ),
    without("the commit holds what it finds live", "Flow", "Ended", CommitHolds=False),
    without("the commit looks what has ended since the enqueue", "Flow", "Ended", CommitLooks=False),
    without("what is locked has not ended", "Flow", "NotEarly", LockedIsLive=False),
    without("a settlement that passes holds an advisory lock", "Flow", "Ended", PassingIsHeld=False),
    without("it looks again under that lock", "Flow", "Ended", PassingLooks=False),
    without("what may be the last settlement locks the batch", "Flow", "Ended", LocksBatch=False),
    without("it waits for those that have passed", "Flow", "Ended", WaitsForPassed=False),
    without("it looks again after that", "Flow", "Ended", CountsAgain=False),
    without("a wait that comes to its end leaves a note", "Flow", "Ended", TimeoutNotes=False),
    without("the sweep seals what the commit could not", "Flow", "Ended", SweepSeals=False),
    holds("events", "Events"),
    holds("events, three messages", "Events", Messages="{m1, m2, m3}", slow=True),
    without("a message that begins to wait holds a lock of the event", "Events", "GoesOn", WaitHoldsName=False),
    without("it looks for the event under that lock", "Events", "GoesOn", WaitLooks=False),
    without("the notification holds a lock of the event", "Events", "GoesOn", NotifyHoldsName=False),
    without("it leaves a note of a message that is locked", "Events", "GoesOn", BusyIsNoted=False),
    without("it wakes no message that was leased since its wait began", "Events", "BackOffKept", OnlyParked=False),
    holds("locks", "LockOrder"),
    holds("locks, three transactions", "LockOrder", Transactions="{a, b, c}", MaxCalls=1, slow=True),
    without("enqueue takes no lock of its channel", "LockOrder", "NoCallWaitsForProducers", FreeEnqueue=False),
    without("one enqueue of many sorts its channels", "LockOrder", "OnlyLatecomersAreRefused", SortedEnqueue=False),
    without("a late enqueue waits for 200 ms at most", "LockOrder", "NoCircle", TimedLateEnqueue=False),
    without("settling goes in the order of ids", "LockOrder", "NoCircle", SortedSettle=False),
    without("settling appends, and writes no count", "LockOrder", "NoCallWaitsForProducers", AppendingSettle=False),
    without("the dequeue skips lanes", "LockOrder", "SomeNeverWait", SkippingDequeue=False),
    without("the sweep skips messages", "LockOrder", "SomeNeverWait", SkippingSweep=False),
    without("rule: enqueue first, settle last", "LockOrder", "NoCircle", EnqueueFirst=False),
    without("rule: several settlements in the order of ids", "LockOrder", "NoCircle", SettleInOrder=False),
    without("rule: nothing after a dequeue", "LockOrder", "NoCircle", DequeueLast=False),
    without("rule: limits are edited alone", "LockOrder", "NoCircle", EditAlone=False),
    without("rule: one dedupe key a transaction", "LockOrder", "NoCircle", OneKey=False),
    holds("reader", "ArchiveReader"),
    holds("reader, and a server that forgets", "ArchiveReader", MaxServerCrashes=1, Drops=False, MaxReaderCrashes=0),
    holds("reader: every row arrives", "ArchiveReader", lasting="Arrives", Drops=False, Partitions="{p1}"),
    without("the cursor goes by transaction, not by max(id)", "ArchiveReader", "NoSkip", ByXid=False),
    without("the horizon stops at running transactions", "ArchiveReader", "NoSkip", HorizonOfRunning=False),
    without("rows and horizon are one commit", "ArchiveReader", "NoDouble", OneCommit=False),
    without("retention waits for the lake", "ArchiveReader", "NothingDroppedUnread", KeptUntilExported=False),
    without(
        "the reader waits for the disk", "ArchiveReader", "NoPhantom", WaitsForDisk=False, MaxServerCrashes=1,
    ),
    without(
        "it looks and waits on one connection", "ArchiveReader", "NoSkip", OneConnection=False, MaxServerCrashes=1,
    ),
)  # fmt: skip
