"""When the faults are over, everything comes. And what the server says meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from verification.chaos.history import History, Row
from verification.chaos.history.events import READY

from .limits import settings
from .lives import Lives
from .verdict import Findings

# Deadlocks, serialization failures, violated constraints, internal errors: never. The rest is what faults look like.
# Internal errors that follow from a fault: a recovery ends with a checkpoint, which needs room.
FOLLOW: dict[str, tuple[str, ...]] = {"full disk": ("checkpoint request failed",)}
FORBIDDEN = ("40P01", "40001", "XX", "23", "42", "22", "0A", "2F", "P0", "21", "34", "24")


def i13_everything_comes(history: History, lives: Lives) -> Findings:
    """after the faults everything is settled in time, and nothing that may run waits idly"""
    calm = next((info.at for info in history.happened("calm")), None)
    drained = next((info.at for info in history.happened("drained")), None)
    if calm is None:
        return
    bound = history.run["drain_within"]
    if drained is None:
        left = [life.message for life in lives.values() if not life.ends()]
        yield f"not drained within {bound / 1e6:.0f} s: {len(left)} messages are left, such as {left[:10]}"
    elif drained - calm > bound:
        yield f"drained {(drained - calm) / 1e6:.1f} s after the last fault, {bound / 1e6:.0f} s allowed"
    else:
        yield None
    yield from idle(history, lives, calm)


def idle(history: History, lives: Lives, calm: int) -> Findings:
    """In the calm, while a message of a free channel is ready, some message must be served now and then."""
    limited = {
        channel
        for channel, value in settings(history).items()
        if any(each.get("max_concurrency") is not None or each.get("release_interval") for each in value.values)
    }
    allowed = history.run.get("idle_within", 10_000_000)
    served = sorted(lease.granted.committed for lease in lives.leases() if lease.granted.committed >= calm)
    end = max(row.committed for row in history.rows)
    quiet = [(since, until) for since, until in pairwise([calm, *served, end]) if until - since > allowed]
    for life in lives.values():
        for since, until in ready_times(history, life.rows, calm):
            if life.rows[0].channel in limited:
                continue
            gap = max((min(until, end) - max(since, begin) for begin, end in quiet), default=0)
            problem = f"message {life.message} was ready, and no message was served for {gap / 1e6:.1f} s"
            yield problem if gap > allowed else None


def ready_times(history: History, rows: list[Row], calm: int) -> Iterator[tuple[int, int]]:
    """When it was ready for longer than may be, in the calm: the rest needs no closer look."""
    allowed = history.run.get("idle_within", 10_000_000)
    for row, after in pairwise(rows):
        if row.status == READY and row.event in ("created", "changed"):
            since = max(row.committed, calm)
            if after.committed - since > allowed:
                yield since, after.committed


def i14_no_unexpected_error(history: History, lives: Lives) -> Findings:
    """no deadlock, no serialization failure, no internal error in the server's log"""
    kinds = {info.fields.get("kind") for info in history.happened("fault")}
    follow = tuple(text for kind, texts in FOLLOW.items() if kind in kinds for text in texts)
    for line in history.happened("server"):
        state, message = line.fields["sqlstate"], line.fields["message"]
        wrong = state.startswith(FORBIDDEN) and not message.startswith(follow)
        yield f"{state} {message} (process {line.fields['pid']})" if wrong else None
    for info in history.happened("log watched"):
        yield None if info.fields.get("lines") else "the server's log was not read"
