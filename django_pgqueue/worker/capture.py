"""Keep the last records that a handler logs, to be written with its outcome.

A context variable says whose call it is. So records of threads and tasks count if they were started with a copy of the
context, as ``asyncio`` and ``sync_to_async`` do.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from contextvars import ContextVar, Token

from django_pgqueue.worker import numbers
from django_pgqueue.worker.failure import redacted_text

LEFT_OUT = "… earlier records are left out …"


class Log:
    """Hold the last records of the call that enters it, up to LOG_CHARACTERS. ``level``: the lowest one that counts."""

    def __init__(self, level: int) -> None:
        self.level = level
        self._records: deque[str] = deque()
        self._characters = 0
        self._is_cut = False
        self._token: Token[Log | None]

    def __enter__(self) -> Log:
        root = logging.getLogger()
        if HANDLER not in root.handlers:  # a later dictConfig() removes it
            root.addHandler(HANDLER)
        self._token = CURRENT.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        CURRENT.reset(self._token)

    def add(self, text: str) -> None:
        """Add a record; the first ones leave to make room. A record that is too long by itself loses its middle."""
        if len(text) > numbers.LOG_CHARACTERS // 2:
            text = redacted_text(text, numbers.LOG_CHARACTERS // 2)
        self._records.append(text)
        self._characters += len(text) + 1
        while self._characters > numbers.LOG_CHARACTERS:
            self._is_cut = True
            self._characters -= len(self._records.popleft()) + 1

    def text(self, most: int = numbers.LOG_CHARACTERS) -> str:
        """Return the last records of at most ``most`` characters, with secrets hidden; empty without a record."""
        text = redacted_text("\n".join(self._records), numbers.LOG_CHARACTERS)
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


def level_of(name: str) -> int | None:
    """Return the lowest level that is kept, by its name, or None for OFF: none is kept."""
    return None if name == "OFF" else logging.getLevelNamesMapping()[name]
