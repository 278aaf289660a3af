from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DEFAULT_DB_ALIAS

from django_pgqueue.embedded import Cluster, EmbeddedError


class Command(BaseCommand):
    help = "Manages the embedded PostgreSQL server of this project, a private server for development."
    requires_system_checks = []  # some of them need a database

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "action",
            choices=["start", "stop", "status", "psql", "destroy"],
            help="start it unless it runs; stop it, ending its connections; show where its data is and how to connect; "
            "open a psql on the project's database; stop it and remove its data",
        )
        parser.add_argument("--database", default=DEFAULT_DB_ALIAS, help="alias in DATABASES (default: %(default)s)")

    def handle(self, *, action: str, database: str, **options: Any) -> None:
        try:
            embedded = settings.DATABASES[database]["EMBEDDED"]
        except KeyError:
            raise CommandError(
                f"DATABASES[{database!r}] was not made by django_pgqueue.embedded.databases(): "
                "there is no embedded server to manage."
            ) from None
        if os.environ.get("DATABASE_URL"):
            self.stderr.write("DATABASE_URL is set: the project uses that server, and not the embedded one.")
        cluster = Cluster(embedded["folder"], binaries=embedded["binaries"])
        try:
            getattr(self, action)(cluster, embedded["name"])
        except (EmbeddedError, OSError) as error:
            raise CommandError(str(error)) from error

    def start(self, cluster: Cluster, name: str) -> None:
        """Start the server, create the database if it is missing, and show the address."""
        started = cluster.start()
        cluster.ensure_database(name)
        self.stdout.write("The server was started." if started else "The server runs already.")
        self._describe(cluster, name)

    def stop(self, cluster: Cluster, name: str) -> None:
        """Stop the server."""
        self.stdout.write("The server was stopped." if cluster.stop() else "The server was not running.")

    def status(self, cluster: Cluster, name: str) -> None:
        """Show whether the server runs, its folder and the address."""
        state = "running" if cluster.pid else "absent" if cluster.version is None else "stopped"
        self.stdout.write(f"Embedded PostgreSQL: {state}")
        self._describe(cluster, name)

    def psql(self, cluster: Cluster, name: str) -> None:
        """Start the server and replace this process by psql."""
        cluster.start()
        cluster.ensure_database(name)
        command = cluster.psql(name)
        os.execv(command[0], command)

    def destroy(self, cluster: Cluster, name: str) -> None:
        """Stop the server and delete its data."""
        self.stdout.write(
            "The server and its data were removed." if cluster.destroy() else f"There is no server in {cluster.folder}."
        )

    def _describe(self, cluster: Cluster, name: str) -> None:
        self.stdout.write(f"  folder:  {cluster.folder}")
        if cluster.version is not None:
            self.stdout.write(f"  data:    {cluster.data}\n  version: {cluster.version}\n  log:     {cluster.log}")
        if pid := cluster.pid:
            self.stdout.write(f"  process: {pid} (user {cluster.data.owner()})\n  url:     {cluster.url(name)}")
