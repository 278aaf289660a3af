"""Hostile names of channels, queues and handlers: each is a name like any other, or refused in one clear line."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command

from django_pgqueue import (
    cancel,
    channel_pause,
    channel_purge,
    channel_release,
    channel_resume,
    channel_set,
    complete,
    dead_letter,
    dequeue,
    enqueue,
    metrics,
    peek,
    queue_pause,
    queue_resume,
)
from django_pgqueue.models import ArchivedMessage, DeadLetter
from django_pgqueue.redaction import printable
from tests.security.names import ALIKE, NAMES
from tests.worker.conftest import drain, queue, register, start  # noqa: F401  (fixtures)

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR|CRITICAL) +\S")


@pytest.mark.django_db
def test_a_hostile_name_lives_a_whole_life() -> None:
    for name in NAMES.values():
        live(name)


def live(name: str) -> None:
    place = {"channel": name, "queue": name}
    channel_set(channel=name, queue=name, max_concurrency=2)
    channel_pause(channel=name, queue=name, reason=name)
    channel_resume(channel=name, queue=name)
    queue_pause(name, reason=name)
    queue_resume(name)
    ids = [enqueue(name, {name: name}, headers={name: name}, dedupe_key=f"{n}{name}", **place).id for n in range(4)]
    assert [found.handler for found in peek(name, 2, channel=name)] == [name, name]
    done, dead = dequeue(name, limit=2, worker=name)
    assert (done.channel, done.queue, done.handler, done.payload) == (name, name, name, {name: name})
    complete(done, results=[{name: name}])
    dead_letter(dead, reason=name, details={name: name})
    cancel(ids[2:3], reason=name)
    assert channel_purge(channel=name, queue=name) == 1
    assert {row.outcome for row in ArchivedMessage.objects.filter(channel=name)} == {"completed", "cancelled", "purged"}
    assert DeadLetter.objects.get(queue=name, handler=name).reason == name
    assert [(row.queue, row.channel) for row in metrics(queue=name, channel=name)] == [(name, name)]
    channel_release(channel=name, queue=name)


@pytest.mark.django_db
def test_names_that_begin_alike_are_not_mixed_up() -> None:
    for name in ALIKE:
        channel_set(channel=name, queue=name)
        enqueue(name, channel=name, queue=name)
    assert [[found.handler for found in dequeue(name, limit=5)] for name in ALIKE] == [[name] for name in ALIKE]


@pytest.mark.django_db(transaction=True)
def test_an_event_of_a_hostile_name_is_one_json_object(pg_url: str) -> None:
    with psycopg.connect(pg_url, autocommit=True) as listener:
        listener.execute("LISTEN pgqueue_events")
        for name in NAMES.values():
            channel_set(channel=name, queue=name)
            listener.execute("INSERT INTO pgqueue_queue (name, events) VALUES (%s, true)", [name])
            enqueue(name, channel=name, queue=name)
            [first] = listener.notifies(timeout=200, stop_after=1)
            assert [json.loads(first.payload)[key] for key in ("queue", "channel", "handler")] == [name] * 3


@pytest.fixture
def log() -> Iterator[Callable[[], list[str]]]:
    """The lines that the worker's own format makes of what is logged."""
    output = StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-8s %(message)s"))
    logger = logging.getLogger("django_pgqueue")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    yield lambda: output.getvalue().splitlines()
    logger.setLevel(level)
    logger.removeHandler(handler)


def test_no_name_and_no_error_makes_a_line_of_its_own_in_the_log(
    drain: Callable[..., Any],  # noqa: F811
    register: Callable[..., None],  # noqa: F811
    log: Callable[[], list[str]],
) -> None:
    def fail(delivery: Any) -> None:
        raise ValueError(delivery.handler)

    for name in NAMES.values():
        register(name, fail, queue=name, max_attempts=1, backoff=lambda attempt, error: 1 / 0)
        channel_set(channel=name, queue=name)
        enqueue(name, channel=name, queue=name, max_attempts=2)
        enqueue(f"unknown {name}"[:200], channel=name, queue=name, max_attempts=1)
        drain(queues=(name,), name=name)
    lines = log()
    assert len([line for line in lines if "dead_lettered" in line or "retried" in line]) >= len(NAMES)
    assert len([line for line in lines if "Traceback" in line]) >= len(NAMES)
    for line in lines:
        assert LINE.match(line) or line.startswith("  "), line
        assert printable(line) == line


@pytest.mark.django_db
def test_a_command_takes_hostile_names_and_shows_them_in_one_line() -> None:
    for name in NAMES.values():
        redrive(name)


def redrive(name: str) -> None:
    channel_set(channel=name, queue=name)
    enqueue(name, channel=name, queue=name)
    dead_letter(dequeue(name), reason=name)
    options = [f"--{key}={name}" for key in ("queue", "channel", "handler", "reason")]
    output = StringIO()
    call_command("pgqueue", "redrive", "dead", *options, "--dry-run", stdout=output, skip_checks=True)
    assert output.getvalue() == f"{1:>8}  {printable(name)}  {printable(name)}\n1 would be redriven\n"
    channel_release(channel=name, queue=name)
    with pytest.raises(CommandError) as refused:
        call_command("pgqueue", "redrive", "dead", *options, stdout=output, skip_checks=True)
    first, *rest = str(refused.value).split("\n")
    assert "released" in first
    assert rest == ["0 redriven before that."]
    assert printable(first) == first
