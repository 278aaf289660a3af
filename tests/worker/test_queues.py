"""Which queues a worker serves: named, all, all but some; and what it says about names that it does not know."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_set
from django_pgqueue.lifecycle.queues import queue_names
from django_pgqueue.management.starting import chosen_queues, warn_of_unknown
from django_pgqueue.models import Queue
from django_pgqueue.models import Worker as Row
from django_pgqueue.worker.worker import QueueWorker
from tests.support.cases import cases
from tests.support.waiting import eventually
from tests.worker.conftest import Process, script, where

Start = Callable[..., QueueWorker]
Spawn = Callable[..., Process]


def in_queue(name: str) -> int:
    """A message on a queue that may be new. Returns its id."""
    channel_set(channel="default", queue=name)
    return script(["effect"], queue=name)


def test_a_star_serves_every_queue_also_later_ones(start: Start) -> None:
    first = in_queue("mails")
    start(queues=("*",))
    eventually(lambda: where(first) == "completed")
    later = in_queue("reports")
    eventually(lambda: where(later) == "completed")
    eventually(lambda: sorted(Row.objects.get().queues) == ["default", "mails", "reports"])


def test_a_later_queue_is_heard_of(start: Start) -> None:
    """Once it is known, an enqueue wakes the worker as on any other queue."""
    in_queue("mails")
    worker = start(queues=("*",), listen="default", poll_interval=timedelta(seconds=0.3))
    later = in_queue("reports")
    eventually(lambda: where(later) == "completed")
    assert worker._served.serves("reports")
    assert worker._served.serves("a queue that is made in a moment")


def test_an_excluded_queue_is_left_alone(start: Start) -> None:
    left, taken = in_queue("reports"), in_queue("mails")
    worker = start(queues=("*",), excluded=("reports", "exports"), drain=True)
    worker.join()
    assert worker.clean
    assert (where(left), where(taken)) == ("live: ready", "completed")
    assert not worker._served.serves("reports")


def test_queues_come_in_order_however_many_channels_they_have(queue: None) -> None:
    for name in ("mails", "exports"):
        for number in range(3):
            channel_set(channel=f"channel-{number}", queue=name)
    assert queue_names() == ("default", "exports", "mails")


@cases(
    ("queues", "excluded", "expected"),
    [
        (None, None, (("default",), ())),
        (["a", "b", "a"], None, (("a", "b"), ())),
        (["a", "*"], None, (("*",), ())),
        (None, ["a", "b"], (("*",), ("a", "b"))),
        (["a", "b"], ["b", "b"], (("a", "b"), ("b",))),
    ],
)
def test_options_make_a_choice(queues: Any, excluded: Any, expected: Any) -> None:
    assert chosen_queues(queues, excluded) == expected


@pytest.mark.parametrize(("queues", "excluded"), [(["a"], ["a"]), (["a", "b"], ["b", "a"]), (None, ["*"])])
def test_nothing_is_no_choice(queues: Any, excluded: Any) -> None:
    with pytest.raises(CommandError, match="leaves no queue to serve"):
        chosen_queues(queues, excluded)


@pytest.mark.django_db
def test_an_unknown_name_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    channel_set(channel="default", queue="mails")
    Queue.objects.create(name="reports")
    warn_of_unknown(("nails", "mails", "reports", "default", "*"), "default")
    [record] = caplog.records
    assert (record.levelname, record.event, record.queue) == ("WARNING", "queue_unknown", "nails")
    assert record.getMessage().startswith("there is no queue 'nails' yet")
    assert record.getMessage().endswith("Queues: default, mails, reports")


def test_a_worker_says_what_it_serves(spawn: Spawn) -> None:
    message = in_queue("mails")
    worker = spawn("--exclude-queue", "reports", "--drain", processes=1)
    assert worker.wait() == 0
    assert where(message) == "completed"
    assert re.search(r"supervisor \S+ starts 1 process\(es\) for all queues without reports$", worker.log, re.MULTILINE)
    assert re.search(r"worker \S+ serves all queues without reports: concurrency 4", worker.log)
    assert "there is no queue 'reports' yet" in worker.log
