"""How far it is: one line that is updated in place on a terminal, a line at each quarter elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from django.core.management.base import OutputWrapper

WIDTH = 30
EVERY = 0.1  # seconds between updates of the line


@dataclass(slots=True)
class Progress:
    stdout: OutputWrapper
    total: int
    started: float = field(default_factory=time.monotonic)
    _shown: float = 0.0
    _quarters: int = 0

    def show(self, done: int) -> None:
        if self.stdout.isatty():
            now = time.monotonic()
            if now - self._shown >= EVERY:
                self._shown = now
                self._in_place(done)
        elif done * 4 // max(self.total, 1) > self._quarters and done < self.total:
            self._quarters = done * 4 // self.total
            self._write(f"   {self._line(done)}\n")

    def finish(self, done: int) -> None:
        if self.stdout.isatty():
            self._in_place(done)
            self._write("\n")
        else:
            self._write(f"   {self._line(done)}\n")

    def _in_place(self, done: int) -> None:
        filled = WIDTH * done // max(self.total, 1)
        self._write(f"\r   [{'#' * filled}{'.' * (WIDTH - filled)}] {self._line(done)}\x1b[K")

    def _line(self, done: int) -> str:
        rate = done / max(time.monotonic() - self.started, 0.001)
        return f"{done:>{len(f'{self.total:,}')},} of {self.total:,}   {rate:,.0f}/s"

    def _write(self, text: str) -> None:
        self.stdout.write(text, ending="")
        self.stdout.flush()
