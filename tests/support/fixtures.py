"""The fixtures of all tests: the test database, more sessions on it, and the plans of their statements."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import pytest
from django.db import connection

from tests.support.sessions import Connect, Session

AUTO_EXPLAIN = {
    "log_format": "json",
    "log_level": "notice",
    "log_nested_statements": "on",
    "log_analyze": "on",
    "log_timing": "off",
    "log_min_duration": "0",
}


@pytest.fixture(scope="session")
def pg_url(django_db_setup: None) -> str:
    """The test database, for psycopg or as DATABASE_URL."""
    settings = connection.settings_dict
    credentials = ":".join(quote(settings[key], safe="") for key in ("USER", "PASSWORD") if settings[key])
    parameters = {"host": settings["HOST"], "port": settings["PORT"], **settings["OPTIONS"]}
    given = {name: value for name, value in parameters.items() if isinstance(value, str | int) and value != ""}
    return f"postgresql://{credentials}@/{quote(settings['NAME'], safe='')}?{urlencode(given)}"


@pytest.fixture(scope="session")
def environment(pg_url: str) -> dict[str, str]:
    """The environment of a subprocess that works on the test database."""
    return {**os.environ, "DATABASE_URL": pg_url, "DJANGO_SETTINGS_MODULE": "testproject.settings"}


@pytest.fixture
def untraced(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No coverage: an exception that arrives from outside, within the tracer's own code, would get lost."""
    for variables in (os.environ, environment):
        monkeypatch.delitem(variables, "COVERAGE_PROCESS_CONFIG", raising=False)
    coverage = sys.modules.get("coverage")
    running = coverage.Coverage.current() if coverage else None
    if running is None:
        yield
        return
    running.stop()
    yield
    running.start()


@pytest.fixture
def connect(pg_url: str, transactional_db: None) -> Iterator[Connect]:
    """More sessions on the test database: `connect(autocommit=True)`. The test commits its writes.

    It depends on transactional_db so that they are closed, and their locks gone, before the tables are emptied.
    """
    opened: list[Session] = []

    def connect(*, autocommit: bool = False, **options: Any) -> Session:
        opened.append(psycopg.connect(pg_url, autocommit=autocommit, **options))
        return opened[-1]

    yield connect
    for session in opened:
        session.close()


@pytest.fixture
def record_plans() -> Callable[[Session], list[dict[str, Any]]]:
    """Records the plans of all statements of a session, also those inside functions; mark the test `auto_explain`.

    `plans = record_plans(session)`: a list that grows, with entries like EXPLAIN's: {"Query Text": …, "Plan": …}.
    """

    def record(session: Session) -> list[dict[str, Any]]:
        plans: list[dict[str, Any]] = []

        def notice(diagnostic: psycopg.errors.Diagnostic) -> None:
            _, separator, plan = (diagnostic.message_primary or "").partition("plan:\n")
            if separator:
                plans.append(json.loads(plan))

        session.add_notice_handler(notice)
        session.execute("LOAD 'auto_explain'")
        for name, value in AUTO_EXPLAIN.items():
            session.execute("SELECT set_config(%s, %s, false)", (f"auto_explain.{name}", value))
        plans.clear()
        return plans

    return record
