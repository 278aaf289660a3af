"""Databases of their own, for tests whose tables have another age or size than those of the test database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.support.paths import REPOSITORY


@contextmanager
def migrated(name: str, server: str, environment: dict[str, str]) -> Iterator[str]:
    """The URL of a new database with the queue; `server` is the URL of another one there. Dropped at the end."""
    with psycopg.connect(server, autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}")
        url = server.replace(f"/{session.info.dbname}?", f"/{name}?")
        try:
            path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "testproject")])
            subprocess.run(
                [sys.executable, "testproject/manage.py", "migrate", "--verbosity=0"],
                env={**environment, "DATABASE_URL": url, "PYTHONPATH": path},
                cwd=REPOSITORY,
                check=True,
                timeout=280,
            )
            yield url
        finally:
            session.execute(f"DROP DATABASE {name} WITH (FORCE)")
