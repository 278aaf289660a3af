"""The steps of the demo, each with what it says about itself."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice

from django.db import connection

from django_pgqueue import NewMessage, channel_resume, enqueue_many, wait_all
from django_pgqueue.flow import Batch
from django_pgqueue.models import ArchivedMessage, Schedule
from flights import source
from flights.channels import OFFICE, PAUSED, QUEUE, SUMS, TOWER, open_channels
from flights.demo import check, pipeline, report, work
from flights.demo.output import Output, number
from flights.demo.progress import Progress
from flights.loading import BLOCK, Loader, blocks, load_reference, reset
from flights.models import Airline

SINGLY = 100
LOCK = 7_205_000
PATIENCE_SECONDS = 60


class AlreadyRunning(Exception):
    """Another demo works on this database."""


@contextmanager
def alone() -> Iterator[None]:
    """Two demos at once would reset each other. The lock goes with the session, however the session ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        if cursor.fetchone() != (True,):
            raise AlreadyRunning("Another demo is running on this database.")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])


def enqueue(out: Output, flights: int) -> tuple[Counter[str], bool]:
    """Write departures with their messages. Returns messages by carrier, and whether a rollback left nothing."""
    reset()
    load_reference()
    open_channels(Airline.objects.values_list("pk", flat=True))
    loader = Loader()
    departures = source.flights(flights)
    for flight in islice(departures, min(SINGLY, (flights + 1) // 2)):
        loader.load_one(flight)
    singly = loader.enqueued.total()
    out.line(f"{number(singly)} in a transaction each: create() and enqueue()")
    out.line(f"{number(flights - singly)} in transactions of {BLOCK}: bulk_create() and enqueue_many()")
    clean = True
    rest = list(islice(departures, BLOCK))
    if rest:
        rollback = loader.load_and_roll_back(rest)
        clean = rollback.clean
        out.rollback(len(rest), rollback)
    progress = Progress(out.stdout, flights)
    for block in blocks(chain(rest, departures)):
        loader.load_block(block)
        progress.show(loader.enqueued.total())
    progress.finish(loader.enqueued.total())
    return loader.enqueued, clean


@contextmanager
def scheduled() -> Iterator[None]:
    """While the demo works, the tower reports every second."""
    schedule = Schedule.objects.filter(name=TOWER)
    schedule.update(enabled=True)
    try:
        yield
    finally:
        schedule.update(enabled=False)


def work_off(out: Output, messages: int, workers: int, concurrency: int) -> None:
    """Let real workers do what there is to do; the paused carrier comes last."""
    out.line(" ".join(work.command(concurrency)) + (f"   ({workers} of them)" if workers > 1 else ""))
    progress = Progress(out.stdout, messages)
    with scheduled():
        work.drain(workers, concurrency, lambda left: progress.show(messages - left))
    progress.finish(messages - work.left())
    if held := work.held_back():
        done = work.left() == held
        out.line(f"{PAUSED} is paused: {number(held)} of its messages wait" + (", all others are done" if done else ""))
        channel_resume(channel=PAUSED, queue=QUEUE)
        out.line(f"{PAUSED} is resumed")
    # A worker that drains does not wait for messages that are scheduled: some mails are to be tried again.
    while work.left() or work.apologies():
        work.drain(1, concurrency, lambda left: None)


def sum_up(out: Output, concurrency: int) -> bool:
    """Sum up each carrier in a batch, and wait for what follows it. Returns whether the sums agree."""
    with Batch(on_done=NewMessage(handler="flights.total", channel=SUMS, queue=OFFICE)) as batch:
        carriers = enqueue_many(
            NewMessage(handler="flights.sum_up", payload={"carrier": carrier}, channel=SUMS, queue=OFFICE)
            for carrier in Airline.objects.values_list("pk", flat=True)
        )
    work.drain(1, concurrency, lambda left: None)
    miles = sum(report["miles"] for report in wait_all(carriers, timeout=PATIENCE_SECONDS))
    [follower] = ArchivedMessage.objects.filter(handler="flights.total", headers__batch=batch.id)
    whole = follower.result
    out.line(
        f"{number(len(carriers))} carriers flew {number(miles)} miles; what followed their batch, once, has "
        f"{number(whole['carriers'])} carriers and {number(whole['miles'])} miles"
    )
    return bool(whole == {"carriers": len(carriers), "miles": miles})


def report_enqueued(out: Output, enqueued: Counter[str], workers: int) -> bool:
    """Print what happened. Returns whether all limits held."""
    carriers = report.carriers()
    out.carriers(enqueued, carriers)
    out.throughput(*report.throughput(), workers)
    out.title("Retries: the mails to the passengers of late departures")
    out.retries(report.retries())
    out.title("Schedule: the tower reports every second")
    out.tower(report.tower())
    limits = report.limits(carriers)
    if limits:
        out.title("Limits")
        out.limits(limits)
    return all(limit.held is not False for limit in limits)


def compare(out: Output, flights: int) -> bool:
    """Print the comparison with the file. Returns whether everything matches."""
    checks = check.check(source.flights(flights))
    out.checks(checks)
    return all(check.matches for check in checks)


def analyse(out: Output) -> bool:
    """Take the archive to the lake, and print what comes back. Returns whether it equals the archive."""
    for command in pipeline.commands():
        out.line(shlex.join(command))
        for line in pipeline.run(command):
            out.line(f"   {line}")
    out.line(pipeline.travelled())
    out.line()
    out.queues(pipeline.queues())
    out.line()
    checked = pipeline.check()
    out.checks([checked])
    return checked.matches
