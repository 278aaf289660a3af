"""Check that the handlers can be imported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution

from django_pgqueue import handlers

_tolerated = ContextVar("tolerated", default=False)


@contextmanager
def tolerated() -> Iterator[None]:
    """Report broken modules as warnings: a worker runs without their handlers, and starts in spite of them."""
    token = _tolerated.set(True)
    try:
        yield
    finally:
        _tolerated.reset(token)


def import_messages() -> list[CheckMessage]:
    """Return a message for each module of handlers that cannot be imported."""
    kind = Caution if _tolerated.get() else Error
    return [
        kind(
            f"{module} cannot be imported: {error}",
            hint="Correct the module. Until then its handlers are missing, and their messages wait.",
            id="pgqueue.E017",
        )
        for module, error in handlers.broken.items()
    ]
