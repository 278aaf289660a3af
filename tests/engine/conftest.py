"""The engine that is to replace the line of today, in a schema of its own of the test database."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.engine.engine import Engine
from tests.support.paths import REPOSITORY
from tests.support.sessions import Session

SQL = sorted((REPOSITORY / "django_pgqueue" / "sql" / "engine").glob("*.sql"))
SCHEMA = "engine"


@pytest.fixture
def sessions(pg_url: str, transactional_db: None) -> Iterator[Callable[..., Session]]:
    """Sessions that find the tables of the engine: `sessions(autocommit=False)`; closed at the end."""
    opened: list[Session] = []

    def session(*, autocommit: bool = True) -> Session:
        opened.append(psycopg.connect(pg_url, autocommit=autocommit, options=f"-c search_path={SCHEMA}"))
        return opened[-1]

    with psycopg.connect(pg_url, autocommit=True) as setup:
        setup.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        setup.execute(f"CREATE SCHEMA {SCHEMA}")
        setup.execute(f"SET search_path = {SCHEMA}")
        for file in SQL:
            setup.execute(file.read_text())
    yield session
    for one in opened:
        one.close()
    with psycopg.connect(pg_url, autocommit=True) as setup:
        setup.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.fixture
def engine(sessions: Callable[..., Session]) -> Engine:
    """A new engine with the queue `default`."""
    engine = Engine(sessions)
    engine.queue("default")
    return engine
