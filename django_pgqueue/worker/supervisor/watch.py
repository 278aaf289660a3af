"""Which children cannot help themselves: past a deadline, not stopping, not starting, or stuck."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.worker.supervisor.process import Child

# Seconds. A child ends a message by itself when its deadline and the grace are over; if it can, after so long at most.
OVERDUE = 5.0
START_TIMEOUT = 120.0
# A child that runs nothing and yet says nothing is stopped, or hangs outside of all handlers.
LONGEST_SILENCE = 60.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """It must die. ``culprits``: messages that are the reason."""

    why: str
    culprits: frozenset[int] = frozenset()


def find_verdict(child: Child, now: float, *, grace: float) -> Verdict | None:
    """``now``: time.monotonic(). ``grace``: seconds after a deadline for the handler to end by itself."""
    running = child.board.running()
    overdue = frozenset(entry.id for entry in running if entry.deadline + grace + OVERDUE < now)
    if overdue:
        ids = ", ".join(f"#{message}" for message in sorted(overdue))
        return Verdict(f"it runs past the deadline of {ids}", overdue)
    if now > child.end_by:
        return Verdict(f"it did not stop in time ({child.stop_reason})")
    if not child.ready:
        late = now > child.started_at + START_TIMEOUT
        return Verdict(f"it was not ready after {START_TIMEOUT:.0f} s") if late else None
    if not running and now > child.heard_at + LONGEST_SILENCE:
        return Verdict(f"it says nothing for {LONGEST_SILENCE:.0f} s, and runs nothing")
    return None
