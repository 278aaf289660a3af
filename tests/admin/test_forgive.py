"""The debt of a rate is ended by a button, by a command and by Python."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from django_pgqueue import channel_set, dequeue, enqueue, limit_set, queue_set, spend
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Channel, Queue, SharedLimit
from tests.admin.conftest import act, address, logged, notices
from tests.support.commands import pgqueue

SECOND = timedelta(seconds=1)


@pytest.fixture(params=["channel", "queue", "sharedlimit"])
def indebted(request: pytest.FixtureRequest, admin_client: Client) -> Any:
    """Something with a rate whose debt takes an hour."""
    channel_set(channel="default", **({"rate": "1/s"} if request.param == "channel" else {}))
    if request.param == "queue":
        queue_set("default", rate="1/s")
    limit_set("api", **({"rate": "1/s"} if request.param == "sharedlimit" else {}))
    for _ in range(2):
        enqueue("h", limits=["api"])
    [delivery] = dequeue()
    spend(delivery, 3600)
    assert dequeue() == []
    model = {"channel": Channel, "queue": Queue, "sharedlimit": SharedLimit}[request.param]
    return model.objects.get(name="api" if request.param == "sharedlimit" else "default")


def seconds_in_debt() -> float:
    """Return for how long the rate gives nothing; a dequeue takes what was forgiven into account."""
    dequeue()
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM pgqueue_next_due('{default}'))")
        due = float(cursor.fetchone()[0] or 0)
        cursor.execute(
            "SELECT coalesce(-min(r.tokens), 0) FROM pgqueue_limit AS l, pgqueue_limit_room(l, clock_timestamp()) AS r"
        )
        return max(due, float(cursor.fetchone()[0]))


def test_a_button_ends_the_debt(admin_client: Client, indebted: Any) -> None:
    assert seconds_in_debt() > 3000
    kind = indebted._meta.model_name
    page = admin_client.get(address(kind, indebted.pk))
    assert "Forgive the debt" in page.content.decode()
    response = admin_client.post(address(kind, indebted.pk), {"action": "forgive"})
    assert notices(response).startswith("1 ")
    assert notices(response).endswith("has no debt now.")
    assert logged()[-1][1] == "The debt of its rate is forgiven."
    assert seconds_in_debt() < 5


def test_the_list_leaves_out_what_has_no_rate(admin_client: Client) -> None:
    channel_set(channel="a")
    channel_set(channel="b", rate="1/s")
    response = act(admin_client, "channel", "forgive", *Channel.objects.values_list("pk", flat=True))
    assert notices(response) == "1 channel has no debt now."
    page = admin_client.get(address("channel", Channel.objects.get(name="a").pk))
    assert "Forgive" not in page.content.decode()


def test_a_command_ends_the_debt(indebted: Any) -> None:
    thing = {"channel": "channel", "queue": "queue", "sharedlimit": "limit"}[indebted._meta.model_name]
    words = f"set {thing}", indebted.name
    assert pgqueue(*words, "--forgive", "--dry-run").endswith("its debt is forgiven")
    assert seconds_in_debt() > 3000
    assert pgqueue(*words, "--forgive").endswith("its debt is forgiven")
    assert seconds_in_debt() < 5


@pytest.mark.django_db
def test_forgive_is_a_bool() -> None:
    for call in (lambda: limit_set("api", forgive="yes"), lambda: queue_set("default", forgive=1),
                 lambda: channel_set(channel="default", forgive="yes")):  # fmt: skip
        with pytest.raises(InvalidMessage, match="forgive"):
            call()
