"""Makes the trouble of docs/how-to/incidents.md in the demo's database, and works on it."""

from __future__ import annotations

import os
import signal
import threading
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection

from django_pgqueue import Delivery, NewMessage, channel_set, enqueue_many, handler
from django_pgqueue.models import Message

QUEUE = "fares"
TENANTS = ("AA", "B6", "DL", "EV", "HA", "UA", "WN")
NOISY = "UA"
CONCURRENCY = 4
LEASE = 1800


class Command(BaseCommand):
    help = (
        "Makes an incident to practise on, and works: flood (of one tenant), deploy (a bad one), host (of a worker, "
        "it dies). work: only works, as after the cause is mended."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("incident", choices=["flood", "deploy", "host", "work"])
        parser.add_argument("--messages", type=int, help="of the flood and the deploy (default: 20000, 1200)")
        parser.add_argument("--drain", action="store_true", help="end when nothing is ready (default: Ctrl-C ends it)")

    def handle(self, *, incident: str, messages: int | None, drain: bool, **options: Any) -> None:
        for tenant in TENANTS:
            channel_set(channel=tenant, queue=QUEUE)
        if incident == "flood":
            send([NOISY], messages or 20_000)
        elif incident == "deploy":
            send(TENANTS, messages or 1_200, max_attempts=1)
        if incident != "work":
            send(TENANTS, 10 * len(TENANTS))
        register(incident)
        if incident == "host":
            threading.Thread(target=die, daemon=True).start()
        self.stdout.write("Working. Ctrl-C ends it.")
        self.stdout.flush()
        more = ["--drain"] * drain + ["--lease", str(LEASE)] * (incident == "host")
        call_command(
            "runqueueworker", "--queue", QUEUE, "--processes", "0", "--concurrency", str(CONCURRENCY), "--batch", "4",
            "--shutdown-timeout", "2", "--no-reload", *more,
        )  # fmt: skip


def send(tenants: tuple[str, ...] | list[str], count: int, **options: Any) -> None:
    enqueue_many(
        NewMessage(
            handler="fares.reprice",
            payload={"carrier": tenants[n % len(tenants)], "fare": n},
            queue=QUEUE,
            channel=tenants[n % len(tenants)],
            **options,
        )
        for n in range(count)
    )


def register(incident: str) -> None:
    @handler("fares.reprice", queue=QUEUE)
    def reprice(delivery: Delivery) -> None:
        if incident == "deploy" and delivery.max_attempts == 1:
            raise KeyError("currency")
        time.sleep(600 if incident == "host" else 0.05)


def die() -> None:
    """As a machine does: at once, and of what it runs nothing is left to say so."""
    held = Message.objects.filter(channel__queue=QUEUE, status=Message.Status.LEASED)
    while held.count() < CONCURRENCY:
        time.sleep(0.25)
    connection.close()
    # Until it has written down once that it lives.
    time.sleep(3)
    os.kill(os.getpid(), signal.SIGKILL)
