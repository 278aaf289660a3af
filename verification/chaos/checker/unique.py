"""Unique keys: one message at a time, and one that is debounced comes at its deadline at the latest."""

from __future__ import annotations

from verification.chaos.history import History

from .lives import Lives, is_grant
from .verdict import Findings

UNITS = {"ms": 1_000, "s": 1_000_000}


def i28_unique(history: History, lives: Lives) -> Findings:
    """of a unique key no second message is enqueued before the first one is settled, and none is lost"""
    holders: dict[tuple[int, str], int] = {}
    key_of: dict[int, tuple[int, str]] = {}
    payloads = set()
    for row in history.rows:
        detail = row.detail or {}
        if row.event == "changed" and "replaced" in detail:
            payloads.add(detail["replaced"])
        if row.message is None:
            continue
        unique = detail.get("unique") if row.event == "created" else None
        if unique and unique["until"] == "settled":
            key_of[row.message] = key = row.channel or 0, unique["key"]
            held = holders.get(key)
            holders[key] = row.message
            yield f"{key}: message {row.message} was enqueued before {held} was settled" if held else None
        elif row.event == "gone" and holders.get(key_of.get(row.message, (0, ""))) == row.message:
            del holders[key_of[row.message]]
    for op in history.of("enqueue_unique"):
        for replaced in op.value.get("replaced", ()):
            yield None if replaced in payloads else f"lost: {op} was answered, and no message has its payload"


def i29_debounce(history: History, lives: Lives) -> Findings:
    """a debounced message is due at its deadline at the latest"""
    for life in lives.values():
        unique = ((life.created.detail if life.created else None) or {}).get("unique")
        if not life.created or not unique or "at_most" not in unique:
            continue
        number, unit = unique["at_most"].split()
        deadline = life.created.at + int(number) * UNITS[unit]
        late = None
        for row in life.rows:
            if is_grant(row):
                break
            late = row.dequeue_at if (row.dequeue_at or 0) > deadline else late
        yield f"message {life.message} was put off by {late - deadline} µs behind its deadline" if late else None
