"""A throw-away PostgreSQL with durable settings, and one fresh database per measurement."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from django_pgqueue.embedded import Cluster as Server
from django_pgqueue.embedded import find_binaries, temporary_cluster
from tests.support.sessions import one

# Settings of a production server: the temporary cluster of the tests saves itself the fsync, here it is half the work.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "max_connections": "100",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """The running server and the pgbench that belongs to it."""

    server: Server
    postmaster: int
    pgbench: Path

    def url(self, database: str) -> str:
        return self.server.url(database)

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(self.url(database), autocommit=True)

    def create_database(self, name: str, template: str = "template1", *, strategy: str = "WAL_LOG") -> None:
        """The strategy FILE_COPY is for large templates: it takes a checkpoint instead of logging every page."""
        with self.connect() as connection:
            drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            connection.execute(drop.format(sql.Identifier(name)))
            create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY {}")
            connection.execute(create.format(*map(sql.Identifier, (name, template, strategy.lower()))))

    def has_database(self, name: str) -> bool:
        with self.connect() as connection:
            return one(connection, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = %s)", name)

    def rename_database(self, name: str, to: str) -> None:
        with self.connect() as connection:
            connection.execute(
                sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(name), sql.Identifier(to))
            )

    def version(self) -> str:
        with self.connect() as connection:
            return one(connection, "SHOW server_version")


def find_pgbench() -> Path:
    beside_the_server = find_binaries().program("pgbench")
    if beside_the_server.exists():
        return beside_the_server
    if found := shutil.which("pgbench"):
        return Path(found)
    raise SystemExit("pgbench is missing: apt-get install postgresql")


def postmaster(server: Server) -> int:
    """Return the process id of a server that runs."""
    pid = server.pid
    assert pid is not None, "the server does not run"
    return pid


@contextmanager
def throw_away(**settings: str) -> Iterator[Cluster]:
    """A server of the benchmark's own, gone afterwards; `settings` are added to the durable ones."""
    pgbench = find_pgbench()
    with temporary_cluster(settings={**SETTINGS, **settings}) as server:
        yield Cluster(server, postmaster(server), pgbench)
