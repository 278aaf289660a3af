"""Steps and events: a wait ends when its event has come, and a kept step has run once."""

from __future__ import annotations

from collections import Counter, defaultdict

from verification.chaos.history import History
from verification.chaos.history.events import SCHEDULED

from .lives import Lives
from .verdict import Findings


def i30_events(history: History, lives: Lives) -> Findings:
    """a message that waits for an event goes on when it has come"""
    came = {row.key for row in history.rows if row.event == "event"}
    for row in history.rows:
        life = lives.get(row.message or 0)
        if row.event != "step" or row.outcome != "wait" or life is None:
            continue
        last = life.rows[-1]
        stuck = row.key in came and last.event == "changed" and last.status == SCHEDULED
        yield f"message {row.message} still waits for {row.key}, which has come" if stuck else None


def i31_steps_once(history: History, lives: Lives) -> Findings:
    """what a kept step writes is there once, also when its message is delivered or redriven again"""
    runs: Counter[str] = Counter()
    completed: dict[str, bool] = defaultdict(bool)
    for life in lives.values():
        if (key := lives.key(life)).startswith("steps:"):
            completed[key] |= any(row.event == "archived" and row.outcome == "completed" for row in life.rows)
    for row in history.rows:
        if row.event == "stepped" and (of := lives.get(row.message or 0)):
            runs[lives.key(of)] += 1
    for key, done in completed.items():
        wrong = runs[key] > 1 or (done and runs[key] == 0)
        yield f"{key}: its step has run {runs[key]} times" if wrong else None
