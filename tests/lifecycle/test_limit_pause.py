from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from django_pgqueue import dequeue, enqueue, limit_pause, limit_resume, limit_set, sweep
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Message, SharedLimit
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def test_messages_of_a_paused_limit_wait_and_others_go_on():
    limit_set("stripe", max_concurrency=5)
    held = [enqueue("h", limits=["stripe"]).id for _ in range(3)]
    free = enqueue("h").id
    limit_pause("stripe", reason="Stripe is down")
    assert [delivery.id for delivery in dequeue(limit=10)] == [free]
    limit = SharedLimit.objects.get()
    assert (limit.pause_reason, limit.paused_until) == ("Stripe is down", None)
    limit_resume("stripe")
    assert sorted(delivery.id for delivery in dequeue(limit=10)) == held
    assert set(Message.objects.values_list("attempts", flat=True)) == {1}
    assert SharedLimit.objects.get().paused_at is None


def test_a_pause_with_an_end_ends_by_the_sweep():
    limit_set("stripe")
    enqueue("h", limits=["stripe"])
    limit_pause("stripe", until=datetime.now(UTC) + timedelta(hours=1))
    sweep()
    assert dequeue() == []
    sql("UPDATE pgqueue_limit SET paused_until = paused_until - interval '2 hours'")
    sweep()
    assert len(dequeue()) == 1


def test_invalid_arguments_are_refused():
    for verb in (limit_pause, limit_resume):
        with refused(InvalidMessage, "there is no limit"):
            verb("paypal")
        with refused(InvalidMessage, "name is not a str"):
            verb(5)  # type: ignore[operator]
    limit_set("stripe")
    with refused(InvalidMessage, "until"):
        limit_pause("stripe", until=datetime(2020, 1, 1, tzinfo=UTC))
    with refused(InvalidMessage, "naive"):
        limit_pause("stripe", until=datetime(2030, 1, 1))  # noqa: DTZ001
    assert SharedLimit.objects.get().paused_at is None
