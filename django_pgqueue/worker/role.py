"""Run the roles of a worker as threads that close their connections and report when they crash."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from django.db import connections

# Takes the name of a role and the error that ended it.
Crashed = Callable[[str, BaseException], None]


class Companion(Protocol):
    """Describe a service that runs beside a worker for as long as the worker does, such as the maintenance loop."""

    def start(self) -> None:
        """Start the service, and return at once."""

    def stop(self) -> None:
        """End the service, and wait for it for a few seconds."""


class Role(threading.Thread):
    """Run ``work`` in a daemon thread called ``pgqueue-<name>``, and close the thread's connections at the end.

    ``crashed``: called with the thread's name and the error, if ``work`` raises.
    """

    # A daemon, because the process must be able to end while a role hangs.
    def __init__(self, name: str, work: Callable[[], None], *, crashed: Crashed) -> None:
        super().__init__(name=f"pgqueue-{name}", daemon=True)
        self._work = work
        self._crashed = crashed

    def run(self) -> None:
        """Run ``work``; the thread calls this."""
        try:
            self._work()
        except BaseException as error:  # a worker cannot do its work without this role, whatever the error is
            self._crashed(self.name, error)
        finally:
            connections.close_all()
