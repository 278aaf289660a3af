"""Ask for a new process when this one has settled enough messages, is too old or has grown too large."""

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

RECYCLING_LOOK_SECONDS = 0.5
STATM = Path("/proc/self/statm")


def memory_bytes() -> int:
    """Return the resident memory of this process in bytes; its peak if the system does not give the current value."""
    with suppress(OSError):
        return int(STATM.read_text().split()[1]) * resource.getpagesize()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class Recycling:
    """Watch the limits ``max_messages``, ``max_age`` and ``max_memory`` of a worker in a thread of its own.

    ``settled``: returns the number of settled messages. ``recycle``: called once, with the reason, when a limit is
    reached. ``crashed``: called with the error if the thread ends by one. Without limits no thread is started.
    """

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
        """Return the reason to replace this process, or an empty text."""
        limits = self._options
        if limits.max_messages is not None and (settled := self._settled()) >= limits.max_messages:
            return f"{settled} messages are done, --max-messages is {limits.max_messages}"
        if limits.max_age is not None and time.monotonic() - self._started_at >= limits.max_age.total_seconds():
            return f"it is older than --max-age, {limits.max_age}"
        if limits.max_memory is not None and (memory := memory_bytes()) >= limits.max_memory:
            return f"it occupies {memory >> 20} MB, --max-memory is {limits.max_memory >> 20}"
        return ""

    def start(self) -> None:
        """Start the thread if there is a limit to watch."""
        if any((self._options.max_messages, self._options.max_age, self._options.max_memory)):
            self._thread.start()

    def stop(self) -> None:
        """End the thread at its next look."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(RECYCLING_LOOK_SECONDS):
            reason = self.reason()
            if reason:
                self._recycle(reason)
                return
