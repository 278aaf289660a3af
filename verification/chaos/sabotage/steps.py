"""List defects of steps and events."""

from __future__ import annotations

from .defect import defect

DEFECTS = (
    defect(
        "a step is kept whoever has the lease", "step_hold",
        "AND m.lease_token = p_token FOR SHARE", "FOR SHARE", "I31",
    ),
    defect(
        "an event wakes nobody that waits for it", "event_wake", "FOR UPDATE OF m SKIP LOCKED", "LIMIT 0",
        "I30", also=(("event_wake", "LIMIT 1;", "LIMIT 0;"),),
    ),
)  # fmt: skip
