"""Keep the last records that a handler logs, to be written with its outcome.

A context variable says whose call it is. So records of threads and tasks count if they were started with a copy of the
context, as ``asyncio`` and ``sync_to_async`` do.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django_pgqueue.conf import settings
from django_pgqueue.handlers import Handler
from django_pgqueue.worker.executor import Execution
from django_pgqueue.worker.failure import redacted_text
from django_pgqueue.worker.numbers import LOG_CHARACTERS

LEFT_OUT = "… earlier records are left out …"


class Log:
    """Hold the last records of one call, up to LOG_CHARACTERS. ``level``: the lowest one that counts."""

    def __init__(self, level: int) -> None:
        self.level = level
        self._records: deque[str] = deque()
        self._characters = 0
        self._is_cut = False

    def add(self, text: str) -> None:
        """Add a record; the first ones leave to make room. A record that is too long by itself loses its middle."""
        if len(text) > LOG_CHARACTERS // 2:
            text = redacted_text(text, LOG_CHARACTERS // 2)
        self._records.append(text)
        self._characters += len(text) + 1
        while self._characters > LOG_CHARACTERS:
            self._is_cut = True
            self._characters -= len(self._records.popleft()) + 1

    def text(self, most: int = LOG_CHARACTERS) -> str:
        """Return the last records of at most ``most`` characters, with secrets hidden; empty without a record."""
        text = redacted_text("\n".join(self._records), LOG_CHARACTERS)
        if len(text) > most:
            self._is_cut, text = True, text[-most:]
            text = text.partition("\n")[2] or text
        return f"{LEFT_OUT}\n{text}" if self._is_cut else text


CURRENT: ContextVar[Log | None] = ContextVar("pgqueue_log", default=None)


class LogHandler(logging.Handler):
    """Add each record to the log of the call that writes it."""

    def __init__(self) -> None:
        super().__init__()
        formatter = logging.Formatter(
            "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"
        )
        formatter.converter = time.gmtime
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        """Add the record, if a call is being logged."""
        log = CURRENT.get()
        if log is not None and record.levelno >= log.level:
            try:
                log.add(self.format(record))
            except Exception:  # a record whose arguments do not fit
                self.handleError(record)


HANDLER = LogHandler()


@contextmanager
def logging_to(log: Log) -> Iterator[None]:
    """Send the records of this context to ``log``."""
    root = logging.getLogger()
    if HANDLER not in root.handlers:  # a later dictConfig() removes it
        root.addHandler(HANDLER)
    token = CURRENT.set(log)
    try:
        yield
    finally:
        CURRENT.reset(token)


def level_of(handler: Handler) -> int | None:
    """Return the lowest level that is kept of the handler's records, or None if none are kept."""
    level = handler.log or settings.LOG_CAPTURE
    return None if level in (None, "OFF") else logging.getLevelNamesMapping()[level]


def capturing(handler: Handler, work: Callable[[list[Any]], list[Execution]]) -> Callable[[list[Any]], list[Execution]]:
    """Return ``work``, which runs the handler for deliveries, so that its executions have what it logged."""
    level = level_of(handler)
    if level is None:
        return work

    def captured(deliveries: list[Any]) -> list[Execution]:
        log = Log(level)
        with logging_to(log):
            executions = work(deliveries)
        return with_log(executions, log)

    return captured


async def acapturing(level: int, work: Coroutine[Any, Any, Any]) -> Any:
    """Await ``work``, which returns an execution or several, as :func:`capturing` does for functions."""
    log = Log(level)
    with logging_to(log):
        found = await work
    with_log(found if isinstance(found, list) else [found], log)
    return found


def with_log(executions: list[Execution], log: Log) -> list[Execution]:
    """Give each execution the log of its call; those of a batch share the room for one."""
    if executions:
        text = log.text(LOG_CHARACTERS // len(executions))
        for execution in executions:
            execution.log = text
    return executions
