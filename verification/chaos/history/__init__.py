"""The history of a run: a folder of JSON lines.

    run.json           what was run: seed, tier, lease, channels, bounds
    client-*.jsonl     one file a process: what was asked (invoke), answered (ok, fail, unknown), and happened (info)
    audit.jsonl        what the server committed, in the words of triggers, with the time of each commit

Times are microseconds since 1970 by the clock of the one machine that everything ran on.
"""

from .events import History, Info, Op, Row
from .load import load
from .recorder import Call, Recorder

__all__ = ["Call", "History", "Info", "Op", "Recorder", "Row", "load"]
