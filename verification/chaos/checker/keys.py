"""The order within an order key."""

from __future__ import annotations

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

    ``places``: where each stands, and when it was committed; ``holder``: the one that was delivered and is not settled.
    """

    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    holder: int | None = None


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
            lines[key].places[row.message] = row.detail.get("order_place") or row.message, row.committed
        if row.message not in key_of:
            continue
        line = lines[key_of[row.message]]
        if row.event == "gone":
            line.places.pop(row.message, None)
            line.holder = None if line.holder == row.message else line.holder
        elif is_grant(row):
            began = row.leased_at or row.at
            before = [
                message
                for message, (place, since) in line.places.items()
                if place < line.places[row.message][0] and since < began - seen_after
            ]
            held, line.holder = line.holder, row.message
            if held not in (None, row.message):
                yield f"{key_of[row.message]}: message {row.message} was leased in {row.xid}, before {held} was settled"
            elif held is None and before:
                yield f"{key_of[row.message]}: message {row.message} was leased in {row.xid}, before {min(before)}"
            else:
                yield None
