"""Writes down what one process asks and is answered. A line is written at once: a kill loses nothing before it."""

from __future__ import annotations

import itertools
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Where the clock of this process may be wrong: the driver's time of day when the clock that never jumps was at zero.
EPOCH = int(os.environ.get("CHAOS_EPOCH", "0"))


def now() -> int:
    return EPOCH + time.monotonic_ns() // 1000 if EPOCH else time.time_ns() // 1000


def epoch() -> str:
    return str((time.time_ns() - time.monotonic_ns()) // 1000)


class Recorder:
    """``process`` names the file; threads may share a recorder, processes may not share a name."""

    def __init__(self, folder: Path, process: str) -> None:
        self.process = process
        self._numbers = itertools.count(1)
        self._file = os.open(folder / f"client-{process}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def invoke(self, verb: str, **args: Any) -> Call:
        number = next(self._numbers)
        self._write({"type": "invoke", "op": number, "verb": verb, "args": args})
        return Call(self, number)

    def info(self, verb: str, **fields: Any) -> None:
        self._write({"type": "info", "verb": verb, **({"fields": fields} if fields else {})})

    def end(self, result: str, number: int, value: dict[str, Any]) -> None:
        self._write({"type": result, "op": number, **({"value": value} if value else {})})

    def close(self) -> None:
        os.close(self._file)

    def _write(self, event: dict[str, Any]) -> None:
        event = {"wall": now(), "mono": time.monotonic_ns() // 1000, **event}
        os.write(self._file, json.dumps(event, default=str, separators=(",", ":")).encode() + b"\n")


@dataclass(frozen=True, slots=True)
class Call:
    """A call that has been invoked; end it once."""

    recorder: Recorder
    number: int

    def ok(self, **value: Any) -> None:
        self.recorder.end("ok", self.number, value)

    def fail(self, error: str, **value: Any) -> None:
        """It was refused: nothing was changed."""
        self.recorder.end("fail", self.number, {"error": error, **value})

    def unknown(self, error: str) -> None:
        """The connection broke: it may have been done."""
        self.recorder.end("unknown", self.number, {"error": error})
