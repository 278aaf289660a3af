from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError, BooleanOptionalAction
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from django_pgqueue import handlers
from django_pgqueue.checks.declared import tolerated
from django_pgqueue.conf import settings
from django_pgqueue.maintenance import declared
from django_pgqueue.maintenance.loop import MaintenanceLoop
from django_pgqueue.management.cli.options import DATABASE, duration, duration_or_zero, one_of, option, positive, whole
from django_pgqueue.management.database import known_database
from django_pgqueue.management.starting import check_database, chosen_queues, queue_name
from django_pgqueue.worker.link import Orders, configure_logging, database_identity
from django_pgqueue.worker.options import WorkerOptions
from django_pgqueue.worker.supervisor import Supervisor
from django_pgqueue.worker.vitals import Vitals
from django_pgqueue.worker.worker import QueueWorker


def address(text: str) -> tuple[str, int]:
    """Return host and port of ``[HOST:]PORT``. Raises ArgumentTypeError."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise ArgumentTypeError(f"{text} is not a port, nor host:port")
    return host.strip("[]"), int(port)


OPTIONS = (
    option("--queue", action="append", dest="queues", type=queue_name, metavar="NAME",
           help="serve this queue; repeatable; '*': all, including later ones (default: default)"),
    option("--exclude-queue", action="append", dest="excluded", type=queue_name, metavar="NAME",
           help="do not serve this queue; repeatable; without --queue: all but these"),
    option("--concurrency", type=positive, default=4, metavar="N",
           help="handlers at the same time, in each process (default: %(default)s)"),
    option("--async-concurrency", type=positive, default=100, metavar="N",
           help="async handlers at the same time (default: %(default)s)"),
    option("--batch", type=positive, default=100, metavar="N",
           help="the most messages of one dequeue (default: %(default)s)"),
    one_of(option("--once", action="store_true", help="dequeue once, then exit"),
           option("--drain", action="store_true", help="work until nothing is ready, then exit")),
    option("--lease", type=duration, metavar="DURATION",
           help="how long a silent worker keeps its messages (default: setting LEASE)"),
    option("--notify", choices=["waiting", "always", "never"],
           help="when enqueue wakes it; never: it only polls (default: setting NOTIFY)"),
    option("--poll-interval", type=duration, metavar="DURATION",
           help="the time between dequeues when idle (default: setting POLL_INTERVAL)"),
    option("--shutdown-timeout", type=duration_or_zero, default=timedelta(seconds=30), metavar="DURATION",
           help="the time that running handlers have to end (default: 30s)"),
    option("--processes", type=whole(0), default=1, metavar="N",
           help="processes that run handlers; 0: this process runs them itself (default: %(default)s)"),
    option("--max-messages", type=positive, metavar="N", help="replace a process after this many messages"),
    option("--max-age", type=duration, metavar="DURATION", help="replace a process after this time"),
    option("--max-memory", type=positive, metavar="MB", help="replace a process that occupies this many megabytes"),
    option("--reload", action=BooleanOptionalAction, help="replace the processes when a file changes (default: DEBUG)"),
    option("--probe-port", type=address, metavar="[HOST:]PORT", help="answer /livez and /readyz by HTTP"),
    option("--heartbeat-file", type=Path, metavar="FILE", help="refresh this file as long as the worker is alive"),
    DATABASE,
)  # fmt: skip


class Command(BaseCommand):
    help = "Runs the handlers of messages. SIGTERM or Ctrl-C ends it cleanly, a second one ends it at once."

    def add_arguments(self, parser: CommandParser) -> None:
        for each in OPTIONS:
            each(parser)

    def check(self, *args: Any, **kwargs: Any) -> None:
        with tolerated():
            super().check(*args, **kwargs)

    def handle(self, *, verbosity: int, **given: Any) -> None:
        using = known_database(given["database"])
        queues, excluded = chosen_queues(given["queues"], given["excluded"])
        check_pool(using, given["concurrency"])
        configure_logging(verbosity)
        check_database(using, queues + excluded)
        handlers.autodiscover()
        notify = given["notify"] or settings.NOTIFY
        options = WorkerOptions(
            using=using,
            queues=queues,
            excluded=excluded,
            concurrency=given["concurrency"],
            async_concurrency=given["async_concurrency"],
            timeout=settings.HANDLER_TIMEOUT,
            batch=min(given["batch"], 10_000),
            lease=given["lease"] or settings.LEASE,
            poll_interval=given["poll_interval"] or settings.POLL_INTERVAL,
            shutdown_timeout=given["shutdown_timeout"],
            listen=None if notify == "never" else settings.LISTEN_DATABASE or using,
            notify="always" if notify == "always" else "waiting",
            once=given["once"],
            drain=given["drain"],
            max_messages=given["max_messages"],
            max_age=given["max_age"],
            max_memory=given["max_memory"] and given["max_memory"] << 20,
            processes=max(1, given["processes"]),
        )

        def maintenance(wake: Callable[[], None]) -> MaintenanceLoop:
            return MaintenanceLoop(using, on_promoted=wake)

        processes, reload = given["processes"], given["reload"]
        if reload and not processes:
            raise CommandError("--reload replaces processes: it needs --processes 1 or more.")
        vitals = make_vitals(given["probe_port"], given["heartbeat_file"])
        if processes:
            reload = django_settings.DEBUG if reload is None else reload
            parent = Supervisor(
                orders(options, verbosity), processes, companion=maintenance, reload=reload, vitals=vitals
            )
            clean = parent.run()
        else:
            clean = QueueWorker(options, companion=maintenance, vitals=vitals).run()
        if not clean:
            sys.exit(1)


def make_vitals(address: tuple[str, int] | None, file: Path | None) -> Vitals:
    """Return the probe endpoint and the heartbeat file. Raises CommandError if they cannot be used."""
    if file is not None and not file.absolute().parent.is_dir():
        raise CommandError(f"The folder of --heartbeat-file {file} does not exist.")
    try:
        return Vitals(address=address, file=file)
    except OSError as error:
        raise CommandError(f"--probe-port: cannot listen on {address}: {error}") from error


def orders(options: WorkerOptions, verbosity: int) -> Orders:
    """Return the orders for worker processes. Raises CommandError if they could not find the settings."""
    if not os.environ.get("DJANGO_SETTINGS_MODULE"):
        raise CommandError(
            "Worker processes find the settings by DJANGO_SETTINGS_MODULE, which is not set. Set it, or give "
            "--processes 0."
        )
    database = database_identity(connections[options.using].settings_dict)
    sync = f"{declared.sync_declared.__module__}.{declared.sync_declared.__name__}"
    return Orders(options, verbosity, database, list(sys.path), os.environ.get("PYTHONPATH"), sync)


def check_pool(using: str, concurrency: int) -> None:
    """Raise CommandError if the connection pool is smaller than the concurrency."""
    pool = connections[using].settings_dict["OPTIONS"].get("pool")
    if not pool:
        return
    sizes = {} if pool is True else pool
    size = sizes.get("max_size") or sizes.get("min_size", 4)
    if size < concurrency:
        raise CommandError(
            f"The connection pool of DATABASES[{using!r}] holds {size} connections, --concurrency is {concurrency}: "
            f'handlers would wait for each other. Set OPTIONS["pool"]["max_size"] to at least {concurrency}.'
        )
