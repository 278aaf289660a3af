"""A queue design that is measured: a schema and the scripts that drive it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.support.paths import REPOSITORY
from tests.support.unlogged import set_unlogged

from .cluster import Cluster

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Design:
    """`install` builds the schema in an empty database; `scripts` is the folder of its pgbench scripts and fixtures.

    Those that are not there are the ones of the design that it is `like`.
    """

    name: str
    scripts: Path
    install: Callable[[Cluster, str], None]
    like: Design | None = None

    @property
    def template(self) -> str:
        return f"template_{self.name}"

    def script(self, name: str) -> Path:
        own = self.scripts / f"{name}.sql"
        return self.like.script(name) if self.like and not own.exists() else own

    def has(self, name: str) -> bool:
        return self.script(name).exists()

    def prepare(self, cluster: Cluster) -> None:
        """Build the schema once; every measurement copies it."""
        cluster.create_database(self.template)
        self.install(cluster, self.template)

    def run_script(self, connection: psycopg.Connection, name: str, **parameters: int) -> psycopg.Cursor:
        # Bound by the client, because a script may hold several statements.
        return psycopg.ClientCursor(connection).execute(self.script(name).read_text(), parameters or None)


def from_file(path: Path) -> Callable[[Cluster, str], None]:
    """An install step that loads one SQL file."""

    def install(cluster: Cluster, database: str) -> None:
        with cluster.connect(database) as connection:
            connection.execute(path.read_text())

    return install


def baseline(name: str) -> Design:
    return Design(name, HERE / "scripts" / name, from_file(HERE / "baselines" / f"{name}.sql"))


def manage(
    cluster: Cluster, database: str, *command: str, root: Path = REPOSITORY, **variables: str
) -> subprocess.Popen[str]:
    """Start a management command of the benchmark's project, in a process of its own; with environment variables.

    `root` is the work tree whose code it runs.
    """
    environment = {
        **os.environ,
        **variables,
        "DATABASE_URL": cluster.url(database),
        "DJANGO_SETTINGS_MODULE": "verification.benchmarks.settings",
        "PYTHONPATH": str(root),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "django", *command],
        env=environment,
        cwd=root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def migrate(cluster: Cluster, database: str, root: Path = REPOSITORY) -> None:
    finish(manage(cluster, database, "migrate", "--verbosity", "0", root=root))


def migrate_unlogged(cluster: Cluster, database: str) -> None:
    """With live tables that a crash empties."""
    migrate(cluster, database)
    set_unlogged(cluster.url(database))


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args!r} failed:\n{errors[-3000:]}")


PGQUEUE = Design("pgqueue", HERE / "scripts" / "pgqueue", migrate)
PGQUEUE_UNLOGGED = Design("pgqueue_unlogged", PGQUEUE.scripts, migrate_unlogged)
RAW_FLOOR = baseline("raw_floor")
CHANNEL_ROW = baseline("channel_row")
