from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_pgqueue import handlers

# Run by test_project.py, in processes of its own.
collect_ignore = ["project"]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Handlers that a test registers are gone after it."""
    before = dict(handlers._registry)
    yield
    handlers._registry.clear()
    handlers._registry.update(before)


@pytest.fixture
def calls() -> list[object]:
    """The deliveries that the handlers of a test have seen."""
    return []
