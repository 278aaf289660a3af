"""Work on the lake: export, verify, roll up and more, in a process of python -m django_pgqueue.spark."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import suppress

from django.apps import apps
from django.core.management.base import CommandError
from django.db import connections
from psycopg import pq
from psycopg.conninfo import make_conninfo

from django_pgqueue.checks.migrated import INSTALL_PIPELINE, NAMES
from django_pgqueue.conf import settings
from django_pgqueue.management.cli.options import DATABASE, option
from django_pgqueue.management.cli.verbs import VerbRun, verb
from django_pgqueue.management.database import known_database
from django_pgqueue.sql.files import PIPELINE

ACTIONS = ("export", "rollup", "run", "report", "redrive", "verify", "erase", "compact", "publish")


@verb(
    "lake", "Export the archive to a lake of Parquet files, and work on the lake, with the settings LAKE and SLA.",
    "export --help", DATABASE,
    option("action", choices=ACTIONS),
    option("options", nargs=argparse.REMAINDER, metavar="...", help="options of the action; ACTION --help lists them"),
    database="none", has_json=False,
)  # fmt: skip
def lake(run: VerbRun) -> None:
    using, action = known_database(run.given.database), run.given.action
    if not apps.is_installed(NAMES[PIPELINE]):
        raise CommandError(f"The app {NAMES[PIPELINE]!r} is not installed. {INSTALL_PIPELINE}")
    command = [sys.executable, "-m", "django_pgqueue.spark", action, *promises(action), *run.given.options]
    if status := run_process(command, lake_environment(using)):
        sys.exit(status)


def erase_lake(queue: str, channel: str, path: str, using: str, *, dry_run: bool) -> None:
    """Erase a channel in a lake, in a process of its own. Raises CommandError if that fails."""
    command = [sys.executable, "-m", "django_pgqueue.spark", "erase", f"--queue={queue}", f"--channel={channel}"]
    command += [f"--lake={path}"] * bool(path) + ["--dry-run"] * dry_run
    if status := run_process(command, lake_environment(using)):
        raise CommandError("The lake is not erased: see above.", returncode=status)


def promises(action: str) -> list[str]:
    """Return the setting SLA as options. They come first, so that options of the command line win."""
    if action not in ("rollup", "run"):
        return []
    return [f"--sla={name}={longest.total_seconds():f}" for name, longest in settings.SLA.items()]


def lake_environment(using: str) -> dict[str, str]:
    """Return the environment that gives the database and the lake. Arguments are visible to all users, so they carry
    neither."""
    found = {**os.environ, "PGQUEUE_SOURCE": conninfo(using)}
    if settings.LAKE is not None:
        found["PGQUEUE_LAKE"] = os.fspath(settings.LAKE)
    return found


def conninfo(using: str) -> str:
    """Return libpq's connection string of this database, including the password."""
    known = {default.keyword.decode() for default in pq.Conninfo.get_defaults()}
    parameters = connections[using].get_connection_params()
    return make_conninfo("", **{key: value for key, value in parameters.items() if key in known})


def run_process(command: list[str], environment: dict[str, str]) -> int:
    """Run the process, and return its exit status as a shell gives it. A signal that ends this process is passed on
    first."""
    process = subprocess.Popen(command, env=environment)
    with suppress(ValueError):  # in another thread than the main one, signals cannot be handled
        signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            # A terminal sends the signal to both processes.
            if not sys.stdin.isatty():
                process.send_signal(signal.SIGINT)
        else:
            return status if status >= 0 else 128 - status
