"""The line that shows how far an export is, on a terminal."""

from __future__ import annotations

import sys
import time
from typing import TextIO

EVERY = 0.5  # seconds


class Progress:
    """Tasks and rows that are done. Writes nothing when the stream is not a terminal."""

    def __init__(self, tasks: int, stream: TextIO | None = None) -> None:
        self.tasks = tasks
        self.done = 0
        self.rows = 0
        self._stream = stream or sys.stderr
        self._began = self._shown = time.monotonic()
        self._shows = self._stream.isatty()

    def add(self, rows: int) -> None:
        self.set(self.done + 1, self.rows + rows)

    def set(self, done: int, rows: int) -> None:
        self.done, self.rows = done, rows
        now = time.monotonic()
        if self._shows and (now - self._shown >= EVERY or done == self.tasks):
            self._shown = now
            rate = rows / max(now - self._began, 0.001)
            self._stream.write(f"\r{done} of {self.tasks} tasks, {rows:,} rows, {rate:,.0f} rows/s \x1b[K")
            self._stream.flush()

    def end(self) -> None:
        """Takes the line away."""
        if self._shows:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
