"""What follows a batch comes once, after its last member; a message that waits for others, after these."""

from __future__ import annotations

from collections import defaultdict

from verification.chaos.history import History, Row

from .lives import Life, Lives
from .verdict import Findings


def i26_batches(history: History, lives: Lives) -> Findings:
    """what follows a batch comes once, and not before its last member"""
    members: dict[int, list[Life]] = defaultdict(list)
    followers: dict[int, list[Row]] = defaultdict(list)
    for life in lives.values():
        detail = (life.created.detail if life.created else None) or {}
        if life.created and "after" in detail:
            followers[detail["after"]].append(life.created)
        if "batch" in detail:
            members[detail["batch"]].append(life)
    for batch in sorted(members.keys() | followers.keys()):
        yield judged(batch, members[batch], followers[batch])


def i27_after(history: History, lives: Lives) -> Findings:
    """a message that waits for others is not delivered before the commits that end them"""
    for life in lives.values():
        detail = (life.created.detail if life.created else None) or {}
        if "awaits" not in detail or not life.leases:
            continue
        delivered = life.leases[0].granted.committed
        late = [
            message
            for message in detail["awaits"]
            if message in lives
            and not any(row.event == "gone" and row.committed <= delivered for row in lives[message].rows)
        ]
        yield f"message {life.message} was delivered before message {late[0]} had ended" if late else None


def judged(batch: int, members: list[Life], after: list[Row]) -> str | None:
    """Return what is wrong with a batch, or None."""
    ends = {life.message: next((row for row in life.rows if row.event == "gone"), None) for life in members}
    left = [message for message, end in ends.items() if end is None]
    if left:
        return f"batch {batch}: message {after[0].message} followed while {left[0]} was not settled" if after else None
    if len(after) != 1:
        return f"batch {batch}: {len(after)} messages followed its {len(members)} members"
    late = [message for message, end in ends.items() if end and end.committed > after[0].committed]
    return f"batch {batch}: message {after[0].message} followed before {late[0]} was settled" if late else None
