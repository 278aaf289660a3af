from __future__ import annotations

from collections.abc import Iterator

import pytest

from verification.model_based.clock import make_database

from .stage import APPS, Stage, opened


@pytest.fixture(scope="session")
def url(pg_url: str) -> str:
    """A database of its own: it is emptied some thousand times."""
    return make_database(pg_url, "pgqueue_interleavings", APPS)


@pytest.fixture
def stage(url: str) -> Iterator[Stage]:
    with opened(url) as stage:
        yield stage
