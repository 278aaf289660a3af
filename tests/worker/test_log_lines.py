"""The lines that a worker logs about each message, in development and in production."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import ProgrammingError
from psycopg.errors import UndefinedFunction

from django_pgqueue import Reject, channel_set
from django_pgqueue.worker.database import Outage
from django_pgqueue.worker.ledger import short_duration
from tests.support.cases import cases
from tests.worker.conftest import Process, script

Drain = Callable[..., dict[str, int]]
Register = Callable[..., None]
ABOUT = ("completed", "deferred", "retried", "dead_lettered", "lease_lost")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """`lines()`: level and text of each line about a message."""
    caplog.set_level(logging.INFO, "django_pgqueue")
    return lambda: [
        f"{record.levelname} {record.getMessage()}"
        for record in caplog.records
        if getattr(record, "event", "") in ABOUT
    ]


def test_in_development_each_message_has_a_line(drain: Drain, settings: Any, lines: Callable[[], list[str]]) -> None:
    settings.DEBUG = True
    channel_set(channel="acme", queue="default")
    number = script(["complete"], channel="acme")
    drain()
    [line] = lines()
    assert re.fullmatch(rf"INFO completed: scripted #{number} on default/acme \(attempt 1 of 5, [\d.]+ m?s\)", line), (
        line
    )


def test_in_production_what_went_well_is_not_a_line(
    drain: Drain, settings: Any, lines: Callable[[], list[str]]
) -> None:
    settings.DEBUG = False
    script(["complete"])
    drain()
    assert lines() == []


def test_a_failure_names_queue_and_channel(
    drain: Drain, register: Register, settings: Any, lines: Callable[[], list[str]]
) -> None:
    settings.DEBUG = False
    channel_set(channel="acme", queue="default")
    register("refuses", lambda delivery: Reject("nothing_to_pay"))
    number = script(handler="refuses", channel="acme")
    failing = script(["raise", "no such order"], channel="acme", max_attempts=2)
    drain()
    found = [re.sub(r", [\d.]+ m?s\)", ")", line) for line in lines()]
    assert f"INFO dead_lettered: refuses #{number} on default/acme (attempt 1 of 5), nothing_to_pay" in found
    [retried] = [line for line in found if line.startswith("WARNING")]
    [dead] = [line for line in found if line.startswith("ERROR")]
    assert retried.startswith(f"WARNING retried: scripted #{failing} on default/acme (attempt 1 of 2), ")
    assert dead.startswith(f"ERROR dead_lettered: scripted #{failing} on default/acme (attempt 2 of 2), ")


def test_a_worker_shows_its_handlers(spawn: Callable[..., Process]) -> None:
    """So that a missing one is noticed at once."""
    worker = spawn("--drain")
    assert worker.wait() == 0
    assert re.search(r"\d+ handler\(s\): .*scripted", worker.log)


@cases(("seconds", "expected"), [(0.0004, "0.4 ms"), (0.0123, "12 ms"), (0.9994, "999 ms"), (3.46, "3.5 s")])
def test_a_duration_is_short(seconds: float, expected: str) -> None:
    assert short_duration(seconds) == expected


def test_a_function_that_is_missing_is_no_broken_connection(caplog: pytest.LogCaptureFixture) -> None:
    error = ProgrammingError("function pgqueue_dequeue does not exist")
    error.__cause__ = UndefinedFunction("function pgqueue_dequeue does not exist")
    with caplog.at_level(logging.INFO):
        Outage("default", "w").failed("producer", error, 0)
    [record] = caplog.records
    assert (record.levelname, record.event) == ("ERROR", "database_lost")
    assert "Run manage.py migrate" in record.getMessage()
