"""Real departures through the queue, and a check that nothing was lost and nothing was counted twice."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, ProgrammingError

from flights import source
from flights.channels import QUEUE
from flights.demo import run
from flights.demo.output import Output, number
from flights.demo.pipeline import PipelineFailed, page, remove_lake
from flights.demo.run import AlreadyRunning
from flights.demo.work import WorkerFailed

DEFAULT = "20000"


class Command(BaseCommand):
    help = "Takes departures from New York through the queue, and checks the result against the file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--flights",
            default=os.environ.get("FLIGHTS") or DEFAULT,
            metavar="N|all",
            help=f"the first N departures of the file, or all {source.TOTAL:,}; also as FLIGHTS (default: {DEFAULT})",
        )
        parser.add_argument("--workers", type=int, default=1, help="worker processes (default: 1)")
        parser.add_argument("--concurrency", type=int, default=2, help="threads of each worker (default: 2)")
        parser.add_argument(
            "--no-lake", action="store_false", dest="lake", help="without the last part: export, metrics, report"
        )
        parser.add_argument("--check", action="store_true", help="only check what the last run left in the database")

    def handle(
        self, *args: Any, flights: str, workers: int, concurrency: int, lake: bool, check: bool, **options: Any
    ) -> None:
        wanted = how_many(flights)
        if workers < 1 or concurrency < 1:
            raise CommandError("--workers and --concurrency take 1 or more.")
        out = Output(self.stdout, self.style)
        try:
            if check:
                right = run.compare(out, wanted)
            else:
                with run.alone():
                    right = demo(out, wanted, workers, concurrency, lake=lake)
        except (source.DataMissing, AlreadyRunning, WorkerFailed, PipelineFailed) as error:
            raise CommandError(str(error)) from None
        except ProgrammingError as error:
            raise CommandError(f"{first_line(error)} (manage.py migrate makes the tables)") from None
        except OperationalError as error:
            raise CommandError(first_line(error)) from None
        except KeyboardInterrupt:
            self.stdout.write()
            raise CommandError("Interrupted. The next demo begins from the beginning.", returncode=130) from None
        if not right:
            sys.exit(1)


def demo(out: Output, flights: int, workers: int, concurrency: int, *, lake: bool) -> bool:
    """All steps. Returns whether everything is as it should be."""
    if lake:
        remove_lake()
    out.stdout.write(f"{number(flights)} departures from New York in 2013, each a message on its carrier's channel")
    out.title(f'Enqueue: the row and its message in one transaction, queue "{QUEUE}"')
    enqueued, clean = run.enqueue(out, flights)
    out.title("Work: aircraft log and route statistics, written in the transaction that completes the message")
    run.work_off(out, enqueued.total(), workers, concurrency)
    out.title("Batch: a sum of each carrier, and what follows when all are there")
    summed = run.sum_up(out, concurrency)
    out.title(
        "Carriers (wait: from enqueue to lease, run: from lease to settlement, at once: most leases at any moment)"
    )
    held = run.report_enqueued(out, enqueued, workers)
    out.title("Check: the database against the file")
    matches = run.compare(out, flights)
    if lake:
        out.title("Pipeline: archive to a Delta lake, metrics (total: from enqueue to settlement), a page with plots")
        matches = run.analyse(out) and matches
    out.line()
    if lake:
        out.stdout.write(f"Open in a browser, no network needed: {page()}")
    out.stdout.write("Look at it in the browser: make admin")
    return clean and summed and held and matches


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def how_many(text: str) -> int:
    if text.strip().lower() == "all":
        return source.TOTAL
    try:
        number = int(text.replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise CommandError(f"FLIGHTS takes a number from 1, or all; not {text!r}.")
    return min(number, source.TOTAL)
