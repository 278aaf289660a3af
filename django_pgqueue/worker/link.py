"""Carry frames between a process and its parent over a pair of sockets; the first one has the orders for the child.

Nothing of Django is imported before the orders set sys.path.
"""

from __future__ import annotations

import logging
import os
import pickle
import select
import socket
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from django_pgqueue.worker.options import WorkerOptions


class Link:
    """Send and receive frames at one end of the connection. A frame is a tuple: a word, and its arguments.

    From the child: ``report`` description, database error, misfit, why to replace it · ``refused`` reason. The first
    report says that the child is ready.
    From the supervisor: orders · ``wake`` · ``lost`` leases · ``cancelled`` leases · ``pause`` bool · ``stop`` reason.
    """

    def __init__(self, fd: int) -> None:
        self._connection = Connection(fd)
        self._sending = threading.Lock()

    @classmethod
    def pair(cls) -> tuple[Link, int]:
        """Return a link and the file descriptor of its other end, which the caller passes to a child and closes."""
        ours, theirs = socket.socketpair()
        return cls(ours.detach()), theirs.detach()

    def send(self, *frame: Any) -> bool:
        """Send a frame; blocks while the other end does not read. Returns whether the other end exists."""
        try:
            with self._sending:
                # Not send(), whose pickler for processes is slow to make. The other end needs to know no difference.
                self._connection.send_bytes(pickle.dumps(frame, pickle.HIGHEST_PROTOCOL))
        except OSError:
            return False
        return True

    def has_room(self) -> bool:
        """Return whether a frame of some kilobytes can be sent without a wait; also if the other end is closed."""
        room = select.poll()
        room.register(self._connection.fileno(), select.POLLOUT)
        return bool(room.poll(0))

    def receive(self) -> tuple[Any, ...] | None:
        """Wait for the next frame and return it; None when the other end is closed and its frames are received."""
        try:
            frame: tuple[Any, ...] = self._connection.recv()
        except (EOFError, OSError):
            return None
        return frame

    def poll(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for a frame or the end of the link. Returns whether one of them is there."""
        try:
            return self._connection.poll(timeout)
        except OSError:
            return True

    def cut(self) -> None:
        """Close the link for new frames. Frames that have arrived can still be received."""
        peer = socket.socket(fileno=os.dup(self._connection.fileno()))
        try:
            peer.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other end has closed it
            pass
        finally:
            peer.close()

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


@dataclass(frozen=True, slots=True)
class Orders:
    """Hold what a new process needs to know; the supervisor sends it as the first frame.

    ``options``: those of the worker. ``verbosity``: how much is logged, as in Django's commands. ``database``: the
    identity of the queue's database in the parent. A process that finds another one must not touch it: its settings
    module does not have changes that were made at run time, as those of a test. ``path``: sys.path of the parent.
    ``python_path``: the environment variable PYTHONPATH, as the parent got it.

    ``at_start``: dotted path of a function that takes the alias of the queue's database. A child calls it when it has
    loaded the code, which is newer than the supervisor's after a reload.
    """

    options: WorkerOptions
    verbosity: int
    database: dict[str, Any]
    path: list[str]
    python_path: str | None
    at_start: str | None = None

    def take_path(self) -> None:
        """Set sys.path to the parent's, and restore PYTHONPATH for the programs that handlers start."""
        sys.path[:] = self.path
        if self.python_path is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = self.python_path


def database_identity(settings: dict[str, Any]) -> dict[str, Any]:
    """Return engine, host, port and name of a database, from its entry in DATABASES."""
    return {key: settings.get(key) for key in ("ENGINE", "HOST", "PORT", "NAME")}


def prepare_process(orders: Orders, link: Link) -> bool:
    """Set up Django and logging, and check that the settings lead to the same database as those of the parent.

    ``orders``: the first frame of ``link``. Returns whether they are the same; if not, the link has carried a frame
    ``refused``.
    """
    orders.take_path()

    import django

    django.setup()

    from django.db import connections

    configure_logging(orders.verbosity)
    found = database_identity(connections[orders.options.using].settings_dict)
    if found == orders.database:
        return True
    differing = [key for key in found if found[key] != orders.database[key]]
    here, there = (", ".join(f"{key} {side[key]!r}" for key in differing) for side in (found, orders.database))
    refusal = (
        f"the settings module {os.environ['DJANGO_SETTINGS_MODULE']} leads to another database than the process uses "
        f"that started it: {here}, not {there}. With settings that were changed at run time, use --processes 0."
    )
    link.send("refused", refusal)
    return False


def configure_logging(verbosity: int) -> None:
    """Write the log of the package to stderr, unless the project has configured logging.

    ``verbosity``: as in Django's commands: 0 shows warnings, 1 information, more also debug messages.
    """
    logger = logging.getLogger("django_pgqueue")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-8s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG))
