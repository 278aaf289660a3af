from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_set, dequeue, enqueue
from django_pgqueue.models import Message
from tests.support.commands import output_of

pytestmark = pytest.mark.django_db


def run(*arguments: object) -> str:
    return output_of("sweepqueue", *arguments, skip_checks=True)


def test_it_gives_expired_leases_back_and_prints_counts() -> None:
    channel_set(channel="default")
    enqueue("h")
    dequeue(lease=timedelta(microseconds=1))
    lines = run().splitlines()
    assert lines[0].startswith("sweep: 1 retried, 0 poisoned")
    assert lines[1].startswith("prune: 0 partitions made")
    assert Message.objects.get().status != Message.Status.LEASED


def test_the_statements_for_pg_cron_are_printed_and_nothing_is_done() -> None:
    channel_set(channel="default")
    enqueue("h")
    dequeue(lease=timedelta(microseconds=1))
    printed = run("--print-cron")
    assert "cron.schedule_in_database('pgqueue_sweep', '5 seconds', $$SELECT pgqueue_sweep()$$, 'test_" in printed
    assert "pgqueue_prune('2592000 seconds', NULL, 7, false)" in printed
    assert Message.objects.get().status == Message.Status.LEASED


def test_the_printed_statements_of_pg_cron_run() -> None:
    from django.db import connection

    for statement in run("--print-cron").split("$$")[1::2]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            assert cursor.fetchall()
