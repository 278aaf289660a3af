from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from .clock import make_database
from .sql import Queue


@pytest.fixture(scope="session")
def model_url(pg_url: str) -> str:
    """A database of its own beside that of the other tests, with the fake clock."""
    return make_database(pg_url, "pgqueue_model")


@pytest.fixture
def queue(model_url: str) -> Iterator[Queue]:
    with psycopg.connect(model_url, autocommit=True) as session:
        yield Queue(session)
