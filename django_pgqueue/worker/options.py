"""Hold the options of a worker."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal
from uuid import uuid4

# In place of a queue's name, this means every queue, also those that are made later.
ALL = "*"


def worker_name(pid: int | None = None) -> str:
    """Return a new unique name for a worker: host, process id (default: this process) and a random part."""
    return f"{socket.gethostname()[:100]}:{pid or os.getpid()}:{uuid4().hex[:8]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Hold what a worker serves and how much it takes: the command line of ``runqueueworker``, or a test, makes it.

    ``using``: alias of the queue's database. ``queues``: names of queues, or ALL. ``excluded``: names that are not
    served. ``concurrency``: the most sync handlers at a time, each in a thread. ``async_concurrency``: the most async
    handlers at a time. ``batch``: the most messages of one dequeue. ``lease``: how long a silent worker keeps its
    messages. ``timeout``: the time limit of handlers that have none; None: no limit. ``grace``: the time in which an
    interrupted handler may end by itself. ``poll_interval``: the longest sleep of an idle worker.
    ``shutdown_timeout``: how long a stopping worker waits for its handlers.

    ``listen``: the database alias for LISTEN; None: polling only. ``notify``: "waiting" if the worker announces that
    it sleeps and is notified only then, "always" if the announcement always holds. ``once``: end after one dequeue.
    ``drain``: end when nothing is ready. ``max_messages``, ``max_age``, ``max_memory`` (bytes): the process is replaced
    when it reaches one of these; None: no limit. ``processes``: how many processes of this supervisor serve the queues.
    ``name``: the worker's row and the name in log lines.
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
    processes: int = 1
    name: str = field(default_factory=worker_name)

    @property
    def served(self) -> str:
        """Return the served queues in words, for log lines."""
        wanted = "all queues" if ALL in self.queues else ", ".join(self.queues)
        return f"{wanted} without {', '.join(self.excluded)}" if self.excluded else wanted
