"""Roles of the worker: threads that close their connections, and that do not die unnoticed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from django.db import connections

Crashed = Callable[[str, BaseException], None]


class Companion(Protocol):
    """Something that runs beside the worker, as long as the worker does, as the maintenance loop."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class Role(threading.Thread):
    """A thread that runs ``work``. ``crashed``: called with the error that ended it."""

    # Daemons, because the process must be able to end while one of them hangs.
    def __init__(self, name: str, work: Callable[[], None], *, crashed: Crashed) -> None:
        super().__init__(name=f"pgqueue-{name}", daemon=True)
        self._work = work
        self._crashed = crashed

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # whatever it is, a worker without this role is none
            self._crashed(self.name, error)
        finally:
            connections.close_all()
