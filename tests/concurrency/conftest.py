from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.concurrency.helpers import IMPATIENT, Session, make_channel
from tests.conftest import Connect

RUNTIME = (
    "pgqueue_lane, pgqueue_arrival, pgqueue_channel_size, pgqueue_departure, pgqueue_waiter, pgqueue_archived_message"
)


@pytest.fixture(autouse=True)
def empty_line(pg_url: str, connect: Connect) -> None:
    """Flush empties what has models; the tables behind the line have none. The floors stay where they are."""
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute(f"TRUNCATE {RUNTIME}")


@pytest.fixture
def session(connect: Connect) -> Session:
    """An operator's session: autocommit, and a wait for a lock is an error."""
    session = connect(autocommit=True, options=IMPATIENT)
    make_channel(session, "default")
    return session


@pytest.fixture
def other(connect: Connect) -> Session:
    """Another one of the same kind."""
    return connect(autocommit=True, options=IMPATIENT)


@pytest.fixture
def business(connect: Connect) -> psycopg.Connection[Any]:
    """A session whose transaction stays open until the test ends it."""
    return connect(autocommit=False, options=IMPATIENT)
