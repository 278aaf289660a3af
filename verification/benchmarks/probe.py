"""One more consumer, which writes down how long each dequeue took and what it got: pgbench knows only whole scripts."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .measure import Run, quantile

PAUSE = 0.001  # seconds after an empty dequeue, as in the scripts


@dataclass(frozen=True, slots=True)
class Timing:
    """A dequeue that found something: when it began, in seconds since 1970, and how long it took, in ms."""

    at: float
    ms: float


class Probe:
    """Works until the end of its block; `timings` is what it has seen, `taken` when it had each message.

    `taken` is by id, in seconds of `time.perf_counter`.
    """

    def __init__(self, run: Run, batch: int) -> None:
        self.timings: list[Timing] = []
        self.taken: dict[int, float] = {}
        self._run = run
        self._batch = batch
        self._error: Exception | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        if self._error:
            raise RuntimeError("the probe failed") from self._error

    def _work(self) -> None:
        try:
            self._consume()
        except Exception as error:
            self._error = error

    def _consume(self) -> None:
        take, complete = (self._run.design.script(name).read_text() for name in ("take", "complete"))
        with self._run.cluster.connect(self._run.database) as connection:
            while not self._done.is_set():
                at, began = time.time(), time.perf_counter()
                rows = connection.execute(take, {"batch": self._batch}, prepare=True).fetchall()
                took = time.perf_counter() - began
                if not rows:
                    time.sleep(PAUSE)
                    continue
                self.timings.append(Timing(at, took * 1e3))
                ids, tokens = zip(*rows, strict=True)
                self.taken |= dict.fromkeys(ids, began + took)
                connection.execute(complete, {"ids": list(ids), "tokens": list(tokens)}, prepare=True)


def percentile(timings: Sequence[Timing], share: float, first: float, last: float) -> float:
    """Return the percentile of the calls that began between two moments, in ms; nan without any."""
    return quantile(sorted(timing.ms for timing in timings if first <= timing.at < last), share)
