"""Where messages are: nothing is lost, each was enqueued by a client, each is in one place and has one end."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable

from verification.chaos.history import History, Op, Row

from .lives import Life, Lives, transactions
from .verdict import Findings

EXISTS = {"created": 1, "gone": -1, "archived": 1, "dead": 1}
ENQUEUES = (
    "enqueue", "enqueue_many", "enqueue_in_transaction", "insert", "enqueue_batch", "enqueue_after",
    "enqueue_unique", "enqueue_steps")  # fmt: skip


def i1_in_one_place(history: History, lives: Lives) -> Findings:
    """a message that was enqueued is in exactly one place, always"""
    for life in lives.values():
        yield places(life)
    created = {row.key: row for row in history.rows if row.event == "created" and row.key}
    asked: set[str] = set()
    for op in history.of(*ENQUEUES):
        asked.update(op.args["keys"])
        yield enqueued(op, created)
    for key, row in created.items():
        if asked and key not in asked:
            yield f"message {row.message} (key {key}) was enqueued by no client"
    business = {row.key for row in history.rows if row.event == "business"}
    for op in history.of("enqueue_in_transaction"):
        for key in op.args["keys"]:
            yield together(op, key, key in business, key in created)
    yield from censuses(history, created)


def places(life: Life) -> str | None:
    there = 0
    for transaction in transactions(life.rows):
        there += sum(EXISTS.get(row.event, 0) for row in transaction)
        if there != 1:
            events = ", ".join(row.event for row in transaction)
            return f"message {life.message} is in {there} places after transaction {transaction[0].xid} ({events})"
    return None


def enqueued(op: Op, created: dict[str, Row]) -> str | None:
    keys = op.args["keys"]
    found = [key for key in keys if key in created]
    wanted = op.value.get("created", keys)
    match op.result:
        case "ok" if missing := [key for key in wanted if key not in created]:
            return f"lost: {op} was answered, and message(s) {missing} never were there"
        case "ok" if extra := set(found) - set(wanted):
            return f"{op} got the answer that {sorted(extra)} were not taken, and they are there"
        case "fail" if found:
            return f"phantom: {op} failed ({op.value.get('error')}), and message(s) {found} are there"
        case "unknown" if found and len(found) < len(keys):
            return f"half done: of {op} {found} are there, of {len(keys)}"
    return None


def together(op: Op, key: str, row: bool, message: bool) -> str | None:
    if row == message:
        return None
    return f"{op}: key {key} has {'its row without a message' if row else 'a message without its row'}"


def censuses(history: History, created: dict[str, Row]) -> Findings:
    """One statement's view of all places: what was answered before it must be in it, once."""
    answered = sorted((op.ended or 0, op.number, op) for op in history.of(*ENQUEUES) if op.result == "ok")
    expected: dict[int, Op] = {}
    known: list[int] = []
    place = 0
    for census in sorted(history.of("census"), key=lambda op: op.began):
        if census.result != "ok":
            continue
        if census.value["twice"]:
            yield f"{census}: message(s) {census.value['twice'][:10]} in two places"
        while place < len(answered) and answered[place][0] < census.began:
            op = answered[place][2]
            rows = [created.get(key) for key in op.value.get("created", op.args["keys"])]
            for message in {row.message for row in rows if row is not None and row.message is not None}:
                expected[message] = op
                insort(known, message)
            place += 1
        # A run has thousands of censuses of all its messages: they are counted, and compared only if some lack.
        seen = sum(bisect_right(known, last) - bisect_left(known, first) for first, last in census.value["ranges"])
        missing = sorted(expected.keys() - ids(census.value["ranges"])) if seen < len(known) else []
        yield f"{census}: message {missing[0]} of {expected[missing[0]]} is nowhere" if missing else None


def ids(ranges: Iterable[tuple[int, int]]) -> set[int]:
    """`[[1, 3], [7, 7]]` → 1, 2, 3, 7"""
    return {number for first, last in ranges for number in range(first, last + 1)}


def i2_one_outcome_each(history: History, lives: Lives) -> Findings:
    """in the end: nothing is live, one outcome for each, one life for each redrive"""
    if not history.run.get("drained", True):
        return
    for life in lives.values():
        ends = life.ends()
        if len(ends) == 1:
            yield None
        elif ends:
            listed = ", ".join(f"{end.event} {end.outcome}" for end in ends)
            yield f"message {life.message} has {len(ends)} outcomes: {listed}"
        else:
            yield f"message {life.message} has no outcome: last seen as {life.rows[-1].event} in {life.rows[-1].xid}"
    created = (row.detail for row in history.rows if row.event == "created" and row.detail)
    successors = Counter(detail["redriven_from"] for detail in created if "redriven_from" in detail)
    for dead, count in successors.items():
        yield f"dead letter {dead} was redriven {count} times" if count > 1 else None
    final = [op for op in history.of("census") if op.args.get("final") and op.result == "ok"]
    for census in final:
        found, known = ids(census.value["ranges"]), set(lives)
        if census.value["live"]:
            yield f"{census}: {census.value['live']} messages are live after the end"
        if found != known:
            yield f"{census}: lost {sorted(known - found)[:10]}, unknown to the history {sorted(found - known)[:10]}"
