"""The options of a worker."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal
from uuid import uuid4

# In the place of a queue's name: every queue, also those that are made later.
ALL = "*"


def worker_name(pid: int | None = None) -> str:
    return f"{socket.gethostname()[:100]}:{pid or os.getpid()}:{uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """``using``: alias of the queue's database. ``queues``: their names, or ALL; ``excluded``: those of them that are
    not served. ``concurrency``: sync handlers at the same time, each in a thread;
    ``async_concurrency``: async ones. ``batch``: most messages of one dequeue. ``timeout``: of handlers that have none;
    ``grace``: after it, for a handler to end by itself.

    ``lease``, ``poll_interval``, ``shutdown_timeout``: how long a silent worker keeps its messages, an idle one sleeps,
    a stopping one waits for its handlers. ``listen``: alias for LISTEN, None for polling only. ``notify``: whether
    enqueuers wake it when it is "waiting", or "always" send their NOTIFY. ``once``: one dequeue; ``drain``: until
    nothing is ready. ``max_messages``, ``max_age``, ``max_memory`` (bytes): when a process has done enough, and makes
    way for a fresh one.
    """

    using: str
    queues: tuple[str, ...] = ("default",)
    excluded: tuple[str, ...] = ()
    concurrency: int = 4
    async_concurrency: int = 100
    batch: int = 100
    lease: timedelta = timedelta(seconds=15)
    timeout: timedelta | None = timedelta(hours=1)
    grace: timedelta = timedelta(seconds=5)
    poll_interval: timedelta = timedelta(seconds=1)
    shutdown_timeout: timedelta = timedelta(seconds=30)
    listen: str | None = None
    notify: Literal["waiting", "always"] = "waiting"
    once: bool = False
    drain: bool = False
    max_messages: int | None = None
    max_age: timedelta | None = None
    max_memory: int | None = None
    name: str = field(default_factory=worker_name)

    @property
    def served(self) -> str:
        """Return the queues in words, for the log."""
        wanted = "all queues" if ALL in self.queues else ", ".join(self.queues)
        return f"{wanted} without {', '.join(self.excluded)}" if self.excluded else wanted
