"""A database whose clock is a rule of the test: it stands still until the test sets it, forwards or backwards."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests.support.paths import REPOSITORY

# A call by the full name is meant to be the real one.
READS = re.compile(r"\b(?<!pg_catalog\.)(?:clock_timestamp|now)\(\)")
# 2026-01-01 12:00 UTC, in microseconds since 1970. All times of the model are counted from here.
BASE = 1_767_268_800_000_000
# A sequence, because the clock must not go back with a rollback, and all sessions have the same one.
CLOCK = f"""
CREATE SEQUENCE fake_clock_us START {BASE};
CREATE FUNCTION fake_clock() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS
    $$BEGIN RETURN timestamptz 'epoch' + interval '1 us' * (SELECT last_value FROM public.fake_clock_us); END$$;
CREATE FUNCTION us(p_at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS
    $$SELECT (extract(epoch FROM p_at) * 1000000)::bigint - {BASE}$$;
"""
FUNCTIONS = "SELECT oid::regprocedure, pg_get_functiondef(oid) FROM pg_proc WHERE proname LIKE 'pgqueue%'"
DEFAULTS = """
    SELECT d.adrelid::regclass::text, a.attname, pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attrdef AS d JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
    WHERE d.adrelid::regclass::text LIKE 'pgqueue%'
"""


def make_database(server: str, name: str, apps: Sequence[str] = ("pgqueue",)) -> str:
    """A new database with these apps in it, on the server of this URL, that goes by the fake clock. Returns its URL."""
    parts = urlsplit(server)
    with psycopg.connect(urlunsplit(parts._replace(path="/postgres")), autocommit=True) as session:
        session.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        session.execute(f"CREATE DATABASE {name}")
    url = urlunsplit(parts._replace(path=f"/{name}"))
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "testproject.settings",
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "testproject")]),
    }
    for app in apps:
        migrate = [sys.executable, "-m", "django", "migrate", app, "--verbosity", "0", "--skip-checks"]
        subprocess.run(migrate, env=environment, cwd=REPOSITORY, check=True)
    with psycopg.connect(url, autocommit=True) as session:
        install(session)
    return url


def install(session: psycopg.Connection[Any]) -> None:
    """The same text as in the files, but for each reading of the clock."""
    session.execute(CLOCK)
    for _, source in session.execute(FUNCTIONS).fetchall():
        if READS.search(source):
            session.execute(READS.sub("public.fake_clock()", source))
    for table, column, default in session.execute(DEFAULTS).fetchall():
        if READS.search(default):
            session.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT public.fake_clock()")


def readings(session: psycopg.Connection[Any]) -> list[str]:
    """Return the functions and defaults that go by the real clock."""
    functions = [str(name) for name, source in session.execute(FUNCTIONS) if READS.search(source)]
    return functions + [f"{table}.{column}" for table, column, text in session.execute(DEFAULTS) if READS.search(text)]
