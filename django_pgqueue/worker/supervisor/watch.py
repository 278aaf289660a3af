"""Find children that must be killed: past a deadline, not stopping, not starting, or silent."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.worker.supervisor.process import Child

# A child gives up a message itself after its deadline and the grace. If it has not done so after this time, it hangs.
OVERDUE_SECONDS = 5.0
CHILD_START_SECONDS = 120.0
# A child that runs no message and sends no frame for this time is stopped, or hangs outside of its handlers.
IDLE_SILENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Say why a child must be killed. ``culprits``: ids of the messages that are the reason."""

    why: str
    culprits: frozenset[int] = frozenset()


def find_verdict(child: Child, now: float, *, grace: float) -> Verdict | None:
    """Return why the child must be killed, or None.

    ``now``: time.monotonic(). ``grace``: the seconds after a deadline in which a handler may end by itself.
    """
    running = child.board.running()
    overdue = frozenset(entry.id for entry in running if entry.deadline + grace + OVERDUE_SECONDS < now)
    if overdue:
        ids = ", ".join(f"#{message}" for message in sorted(overdue))
        return Verdict(f"it runs past the deadline of {ids}", overdue)
    if now > child.end_by:
        return Verdict(f"it did not stop in time ({child.stop_reason})")
    if not child.ready:
        late = now > child.started_at + CHILD_START_SECONDS
        return Verdict(f"it was not ready after {CHILD_START_SECONDS:.0f} s") if late else None
    if not running and now > child.heard_at + IDLE_SILENCE_SECONDS:
        return Verdict(f"it says nothing for {IDLE_SILENCE_SECONDS:.0f} s, and runs nothing")
    return None
