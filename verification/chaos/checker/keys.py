"""The order within an order key."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from dataclasses import dataclass, field

from verification.chaos.history import History

from .limits import settings
from .lives import Lives, is_grant
from .order import FOLDED_AFTER
from .verdict import Findings

Key = tuple[int, str]


@dataclass(slots=True)
class Line:
    """The live messages of a key.

    ``order``: their places and ids, sorted; ``places``: where each stands, and when it was committed; ``holder``: the
    one that was delivered and is not settled.
    """

    order: list[tuple[int, int]] = field(default_factory=list)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    holder: int | None = None

    def add(self, message: int, place: int, since: int) -> None:
        insort(self.order, (place, message))
        self.places[message] = place, since

    def remove(self, message: int) -> None:
        if message in self.places:
            place, _ = self.places.pop(message)
            del self.order[bisect_left(self.order, (place, message))]

    def before(self, message: int) -> list[tuple[int, int]]:
        """Return the messages before this one, and when each was committed."""
        ahead = self.order[: bisect_left(self.order, (self.places[message][0], 0))]
        return [(other, self.places[other][1]) for _, other in ahead]


def i21_order_of_keys(history: History, lives: Lives) -> Findings:
    """of an order key no message is leased before the one that was leased last is settled, nor before an earlier one"""
    channels = settings(history)
    free = {number for number, known in channels.items() if not any(value.get("ordered") for value in known.values)}
    key_of: dict[int, Key] = {}
    lines: dict[Key, Line] = defaultdict(Line)
    seen_after = history.run.get("folded_within", FOLDED_AFTER)
    for row in history.rows:
        if row.message is None:
            continue
        if row.event == "created" and row.channel in free and (row.detail or {}).get("order_key"):
            key_of[row.message] = key = row.channel, row.detail["order_key"]
            lines[key].add(row.message, row.detail.get("order_place") or row.message, row.committed)
        if row.message not in key_of:
            continue
        line = lines[key_of[row.message]]
        if row.event == "gone":
            line.remove(row.message)
            line.holder = None if line.holder == row.message else line.holder
        elif is_grant(row):
            began = row.leased_at or row.at
            before = [message for message, since in line.before(row.message) if since < began - seen_after]
            held, line.holder = line.holder, row.message
            if held not in (None, row.message):
                yield f"{key_of[row.message]}: message {row.message} was leased in {row.xid}, before {held} was settled"
            elif held is None and before:
                yield f"{key_of[row.message]}: message {row.message} was leased in {row.xid}, before {min(before)}"
            else:
                yield None
