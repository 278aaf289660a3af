"""Checks that the handlers can be imported."""

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
    """A worker runs without the handlers of a broken module, and does not refuse to start because of it."""
    token = _tolerated.set(True)
    try:
        yield
    finally:
        _tolerated.reset(token)


def check() -> list[CheckMessage]:
    kind = Caution if _tolerated.get() else Error
    return [
        kind(
            f"{module} cannot be imported: {error}",
            hint="Mend it. Until then its handlers are missing: workers let their messages wait.",
            id="pgqueue.E017",
        )
        for module, error in handlers.broken.items()
    ]
