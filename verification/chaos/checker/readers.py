"""Those who read archive and dead letters bit by bit, as exports do."""

from __future__ import annotations

from collections import Counter

from verification.chaos.history import History

from .lives import Lives
from .verdict import Findings


def i15_readers_see_each_row_once(history: History, lives: Lives) -> Findings:
    """a reader by commit horizon sees each settled message once"""
    readers = {op.process for op in history.of("read")}
    settled: dict[str, Counter[int]] = {"archived": Counter(), "dead": Counter()}
    for row in history.rows:
        if row.event in settled and row.message is not None:
            settled[row.event][row.message] += 1
    for reader in sorted(readers):
        seen: dict[str, Counter[int]] = {"archived": Counter(), "dead": Counter()}
        complete = False
        for op in history.of("read"):
            if op.process == reader and op.result == "ok":
                for place, ids in op.value["seen"].items():
                    seen[place].update(ids)
                complete = complete or bool(op.args.get("last"))
        for place, expected in settled.items():
            for message, count in expected.items():
                times = seen[place][message]
                if times > count or (complete and times < count):
                    yield f"{reader} saw message {message} {times} times in {place}, it was there {count} times"
                else:
                    yield None
            for message in seen[place].keys() - expected.keys():
                yield f"{reader} saw message {message} in {place}, where it never was"
