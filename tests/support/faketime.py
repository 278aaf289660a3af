"""The library that lets a process have another clock."""

from __future__ import annotations

from pathlib import Path

import pytest


def libfaketime() -> str | None:
    """Return the path of libfaketime, or None if it is not installed."""
    # Not the variant for threads: it deadlocks now and then when a signal comes.
    return next(map(str, Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)


@pytest.fixture
def faketime() -> str:
    """The path of libfaketime."""
    found = libfaketime()
    if not found:
        pytest.fail("libfaketime is missing, without which a wrong clock cannot be tested: make tools")
    return found
