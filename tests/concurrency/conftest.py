from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.concurrency.rates import Rated
from tests.support.sessions import IMPATIENT, Connect, Session
from tests.support.tables import empty_tables
from tests.support.verbs import make_channel, set_queue


@pytest.fixture(autouse=True)
def empty_line(transactional_db: None) -> None:
    """Without the default channel, too. The floors stay where they are."""
    empty_tables()


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


@pytest.fixture(params=["channel", "queue", "share"])
def rated(request: pytest.FixtureRequest, session: Session) -> Rated:
    """Give a rate to channel a, to the queue, or to the queue that serves by share."""

    def set_rate(interval: str, burst: int) -> None:
        rate = {"release_interval": interval, "release_burst": burst}
        make_channel(session, "a", **rate if request.param == "channel" else {})
        if request.param != "channel":
            set_queue(session, fairness="turns" if request.param == "queue" else "share", **rate)

    return set_rate


@pytest.fixture
def audit(pg_url: str, session: Session) -> Iterator[None]:
    """Every lease that is ever committed, and what its message cost."""
    session.execute("CREATE TABLE audit (channel_id bigint, leased_at timestamptz, cost integer)")
    session.execute(
        "CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO audit VALUES (NEW.channel_id, NEW.leased_at, coalesce(NEW.cost, 1)); RETURN NULL; END $$"
    )
    session.execute(
        "CREATE TRIGGER audit AFTER UPDATE ON pgqueue_message FOR EACH ROW"
        " WHEN (NEW.status = 2 AND OLD.status <> 2) EXECUTE FUNCTION audit()"
    )
    yield
    with psycopg.connect(pg_url, autocommit=True) as fresh:
        fresh.execute("DROP FUNCTION audit CASCADE")
        fresh.execute("DROP TABLE audit")
