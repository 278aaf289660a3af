"""Handlers that a test registers do not reach the next test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from django_pgqueue import handlers


@contextmanager
def restored_registry() -> Iterator[None]:
    """Restore the registry of handlers at the end of the block, including handlers that the block replaced."""
    before = dict(handlers._registry)
    try:
        yield
    finally:
        handlers._registry.clear()
        handlers._registry.update(before)


@pytest.fixture
def handlers_restored() -> Iterator[None]:
    """Restore the registry of handlers after the test."""
    with restored_registry():
        yield
