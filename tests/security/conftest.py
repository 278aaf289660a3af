"""Roles that are what `pgqueue grant` makes of them, and sessions that log in as them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.commands import output_of
from tests.support.sessions import Connect, Session
from tests.support.tables import empty_tables

KINDS = ("producer", "worker", "operator", "reader", "pipeline")
# Roles of this run: roles belong to the server. "stranger" has been granted nothing, "everything" all there is.
NAMES = {kind: f"pgqueue_test_{kind}_{os.getpid()}" for kind in (*KINDS, "stranger", "everything")}
PASSWORD = "for-the-tests"


def grant(kind: str, role: str) -> None:
    """Grant a role the rights of a kind."""
    output_of("pgqueue", "grant", kind, role)


@pytest.fixture(scope="session")
def roles(pg_url: str, django_db_blocker: Any) -> Iterator[dict[str, str]]:
    """The names of the roles by what they are."""
    with psycopg.connect(pg_url, autocommit=True) as owner, django_db_blocker.unblock():
        for name in NAMES.values():
            owner.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
        for kind in KINDS:
            grant(kind, NAMES[kind])
            grant(kind, NAMES["everything"])
    yield NAMES  # and no session meanwhile: other tests count those
    with psycopg.connect(pg_url, autocommit=True) as owner:
        for name in NAMES.values():
            owner.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


@pytest.fixture
def empty(pg_url: str, connect: Connect) -> Iterator[Session]:
    """The owner's session, on tables without rows. Flush empties what has models; the rest has none."""
    owner = connect(autocommit=True)
    empty_tables(owner)
    owner.execute("SELECT pgqueue_channel_set('default', 'default')")
    yield owner
    # Their tables would stay when the list of them is emptied.
    owner.execute("SELECT pgqueue_ingest_clean(p_stale => '-1 second')")


@pytest.fixture
def login(pg_url: str, roles: dict[str, str], connect: Connect) -> Iterator[Callable[..., Session]]:
    """`login("worker")`: a session in autocommit that has logged in as this role, and never waits long."""
    opened: list[Session] = []

    def login(kind: str, **options: Any) -> Session:
        address = make_conninfo(pg_url, user=roles[kind], password=PASSWORD)
        given = {"autocommit": True, "options": "-c lock_timeout=20s -c statement_timeout=200s", **options}
        opened.append(psycopg.connect(address, **given))
        return opened[-1]

    yield login
    for session in opened:
        session.close()
