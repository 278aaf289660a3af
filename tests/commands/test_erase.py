"""A tenant is counted, erased, and reported."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import CommandError

from django_pgqueue import channel_set, complete, dequeue, enqueue
from django_pgqueue.models import ArchivedMessage, Channel, Message
from tests.lifecycle.conftest import sql
from tests.support.commands import pgqueue

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _tenant() -> Any:
    sql("TRUNCATE pgqueue_archived_message, pgqueue_lane, pgqueue_arrival")
    channel_set(channel="acme", queue="mails")
    enqueue("h", queue="mails", channel="acme")
    complete(dequeue(queue="mails"))
    enqueue("h", queue="mails", channel="acme")
    yield
    sql("TRUNCATE pgqueue_archived_message, pgqueue_lane, pgqueue_arrival")


def run(*arguments: str) -> str:
    return pgqueue("erase channel acme --queue mails", *arguments)


def test_a_dry_run_says_what_an_erase_then_does() -> None:
    rows = "1 archived_message, 1 channel, 1 message"
    assert run("--dry-run") == f"channel mails/acme would be erased: {rows}"
    assert Message.objects.count() == 1
    assert run() == f"channel mails/acme is erased: {rows}"
    assert not Channel.objects.filter(queue="mails").exists()
    assert not ArchivedMessage.objects.exists()
    assert run() == "channel mails/acme is erased: no rows"


def test_json_has_all_of_the_report() -> None:
    dequeue(queue="mails")
    answer = json.loads(run("--dry-run", "--json"))
    assert answer == {
        "version": 1, "action": "erase", "queue": "mails", "channel": "acme", "dry_run": True, "done": False,
        "erased": {"archived_message": 1}, "left": {"channel": 1, "message": 1}, "leased": 1,
    }  # fmt: skip


def test_leases_make_it_fail_unless_it_is_forced() -> None:
    dequeue(queue="mails")
    with pytest.raises(CommandError, match=r"Workers hold leases on 1 messages\. The channel stays paused"):
        run()
    assert Message.objects.count() == 1
    assert run("--force") == "channel mails/acme is erased: 1 channel, 1 message"
    assert not Message.objects.exists()


def test_an_open_transaction_makes_it_fail(connect: Any) -> None:
    connect().execute("SELECT pgqueue_enqueue('h', p_queue => 'mails', p_channel => 'acme')")
    with pytest.raises(CommandError, match="may still bring some: run it again"):
        run()
