from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from psycopg import pq
from psycopg.conninfo import make_conninfo

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.database import alias

ACTIONS = ("export", "rollup", "report", "redrive", "simulate", "verify")


class Command(BaseCommand):
    help = (
        "Exports the archive to a lake of Parquet files, and works on it: python -m django_pgqueue.spark, with the "
        "queue's database and the settings LAKE and SLA. queuelake <action> --help lists the options of an action."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")
        parser.add_argument("action", choices=ACTIONS)
        parser.add_argument(
            "options", nargs=argparse.REMAINDER, metavar="...", help="options of the action, --lake for another lake"
        )

    def handle(self, *, database: str | None, action: str, **given: Any) -> None:
        using = alias(database)
        if using not in connections:
            raise CommandError(f"There is no database {using!r} in DATABASES. Choose one of {', '.join(connections)}.")
        command = [sys.executable, "-m", "django_pgqueue.spark", action, *arguments(action, given["options"])]
        # In the environment, not among the arguments: those are there for all to read.
        status = run(command, {**os.environ, "PGQUEUE_SOURCE": conninfo(using)})
        if status:
            sys.exit(status)


def arguments(action: str, given: list[str]) -> list[str]:
    """What the settings say comes first, so that an option that is given wins."""
    found = []
    if settings.LAKE is not None:
        found.append(f"--lake={os.fspath(settings.LAKE)}")
    if action == "rollup":
        found += [f"--sla={name}={longest.total_seconds()}" for name, longest in settings.SLA.items()]
    return found + given


def conninfo(using: str) -> str:
    """How libpq connects to this database, the password included."""
    known = {default.keyword.decode() for default in pq.Conninfo.get_defaults()}
    parameters = connections[using].get_connection_params()
    return make_conninfo("", **{key: value for key, value in parameters.items() if key in known})


def run(command: list[str], environment: dict[str, str]) -> int:
    """The exit status of the process, as a shell gives it. A signal that ends this process ends that one first."""
    process = subprocess.Popen(command, env=environment)
    before = signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
    try:
        while True:
            try:
                status = process.wait()
                break
            except KeyboardInterrupt:
                # The terminal has told both; the other one says how it ends.
                continue
    finally:
        signal.signal(signal.SIGTERM, before)
    return status if status >= 0 else 128 - status
