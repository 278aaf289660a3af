"""Recycling: a process that has done enough, lived long enough or grown too large makes way for a fresh one."""

from __future__ import annotations

import resource
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.role import Crashed, Role

INTERVAL = 0.5
STATM = Path("/proc/self/statm")


def memory_bytes() -> int:
    """Return the resident memory of this process in bytes; its peak where the system has no current value."""
    with suppress(OSError):
        return int(STATM.read_text().split()[1]) * resource.getpagesize()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Recycling:
    """``settled``: how many messages are done. ``recycle``: called once, with the reason."""

    def __init__(
        self, options: WorkerOptions, *, settled: Callable[[], int], recycle: Callable[[str], None], crashed: Crashed
    ) -> None:
        self._options = options
        self._settled = settled
        self._recycle = recycle
        self._started_at = time.monotonic()
        self._stopped = threading.Event()
        self._thread = Role("recycling", self._run, crashed=crashed)

    def reason(self) -> str:
        """Return the reason to replace this process; empty when there is none."""
        limits = self._options
        if limits.max_messages is not None and (settled := self._settled()) >= limits.max_messages:
            return f"{settled} messages are done, --max-messages is {limits.max_messages}"
        if limits.max_age is not None and time.monotonic() - self._started_at >= limits.max_age.total_seconds():
            return f"older than {limits.max_age}"
        if limits.max_memory is not None and (memory := memory_bytes()) >= limits.max_memory:
            return f"it occupies {memory >> 20} MB, --max-memory is {limits.max_memory >> 20}"
        return ""

    def start(self) -> None:
        if any((self._options.max_messages, self._options.max_age, self._options.max_memory)):
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL):
            reason = self.reason()
            if reason:
                self._recycle(reason)
                return
