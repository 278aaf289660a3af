"""Consumers of a part of a queue: by handler, by payload. The limits of channels hold for them, too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection

from django_pgqueue import (
    channel_pause,
    channel_resume,
    channel_set,
    complete,
    dequeue,
    dequeue_matching,
    enqueue,
    handlers,
    queue_pause,
)
from django_pgqueue.exceptions import InvalidMessage
from tests.support.cases import cases
from tests.support.moments import expire, pass_time
from tests.support.refusals import refused
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db


@pytest.fixture(params=["walk", "index"])
def searched(request: pytest.FixtureRequest) -> Iterator[str]:
    """Without the index of payloads and with it; it goes with the transaction of the test."""
    if request.param == "index":
        sql("CREATE INDEX pgqueue_message_payload ON pgqueue_message USING gin (payload jsonb_path_ops)")
    return request.param


def ids(deliveries):
    return [delivery.id for delivery in deliveries]


def test_it_leases_messages_of_one_handler(searched: str):
    enqueue("mail", {})
    wanted = [enqueue("report", {}).id for _ in range(3)]
    found = dequeue_matching(limit=2, handler="report", worker="me")
    assert ids(found) == wanted[:2]
    assert (found[0].attempt, found[0].worker, found[0].handler) == (1, "me", "report")
    complete(found)
    assert ids(dequeue_matching(limit=5, handler="report")) == wanted[2:]
    assert dequeue_matching(limit=5, handler="report") == []
    assert [delivery.handler for delivery in dequeue(limit=5)] == ["mail"]


def test_it_leases_messages_by_their_payload(searched: str):
    for n in range(20):
        enqueue("h", {"region": "eu" if n % 5 == 0 else "us", "n": n})
    found = dequeue_matching(limit=10, payload={"region": "eu"})
    assert [delivery.payload["n"] for delivery in found] == [0, 5, 10, 15]
    assert len(dequeue(limit=50)) == 16


def test_in_a_channel_the_order_is_as_ever(searched: str):
    last, first = enqueue("h", {"k": 1}), enqueue("h", {"k": 1}, priority=5)
    enqueue("h", {"k": 2}, priority=9)
    assert ids(dequeue_matching(limit=2, payload={"k": 1})) == [first.id, last.id]


def test_channels_share_the_limit(searched: str):
    for name in "abc":
        channel_set(channel=name)
        for n in range(4):
            enqueue("h", {"k": 1, "n": n}, channel=name)
    found = dequeue_matching(limit=6, payload={"k": 1})
    assert sorted(delivery.channel for delivery in found) == list("aabbcc")
    assert len(dequeue_matching(limit=20, payload={"k": 1})) == 6


@pytest.mark.parametrize("favour", [{}, {"priority": 9}, {"dequeue_at": datetime(2020, 1, 1, tzinfo=UTC)}], ids=str)
@pytest.mark.parametrize("loud", ["a", "b"])
def test_a_channel_whose_messages_come_one_by_one_overtakes_no_other(searched: str, loud: str, favour: dict[str, Any]):
    """The line orders the channels, whatever their ids are and whatever a message says."""
    for name in "ab":
        channel_set(channel=name)
    waiting = enqueue("h", {"k": 1}, channel="b" if loud == "a" else "a").id
    served: list[int] = []
    for _ in range(2):
        enqueue("h", {"k": 1}, channel=loud, **favour)
        found = dequeue_matching(payload={"k": 1})
        complete(found)
        served += ids(found)
    assert waiting in served


def test_max_concurrency_holds(searched: str):
    channel_set(channel="default", max_concurrency=2)
    for _ in range(6):
        enqueue("h", {"k": 1})
    [plain] = dequeue()
    [one] = dequeue_matching(limit=9, payload={"k": 1})
    assert dequeue_matching(limit=9, payload={"k": 1}) == []
    assert dequeue(limit=9) == []
    complete([plain, one])
    assert len(dequeue_matching(limit=9, payload={"k": 1})) == 2


def test_a_rate_holds(searched: str):
    channel_set(channel="default", release_interval=timedelta(minutes=1), release_burst=2)
    for _ in range(6):
        enqueue("h", {"k": 1})
    assert len(dequeue_matching(limit=9, payload={"k": 1})) == 2
    assert dequeue_matching(limit=9, payload={"k": 1}) == []
    assert dequeue(limit=9) == []
    pass_time(minutes=1)
    assert len(dequeue_matching(limit=9, payload={"k": 1})) == 1


def test_a_pause_holds(searched: str):
    enqueue("h", {"k": 1})
    channel_pause(channel="default")
    assert dequeue_matching(payload={"k": 1}) == []
    channel_resume(channel="default")
    queue_pause("default")
    assert dequeue_matching(payload={"k": 1}) == []


def test_it_keeps_to_its_queue(searched: str):
    channel_set(channel="default", queue="other")
    enqueue("h", {"k": 1}, queue="other")
    assert dequeue_matching(payload={"k": 1}) == []
    assert len(dequeue_matching("other", payload={"k": 1})) == 1


def test_expired_and_due_messages_come_back(searched: str):
    lost = enqueue("h", {"k": 1}, backoff=timedelta(0))
    expire(*dequeue())
    assert ids(dequeue_matching(payload={"k": 1})) == [lost.id]
    due = enqueue("h", {"k": 1}, delay=timedelta(hours=1))
    pass_time(hours=1)
    assert due.id in ids(dequeue_matching(limit=5, payload={"k": 1}))


def test_without_the_index_it_looks_at_so_many():
    for _ in range(5):
        enqueue("other", {})
    wanted = enqueue("h", {})
    assert dequeue_matching(handler="h", look=5) == []
    assert ids(dequeue_matching(handler="h", look=6)) == [wanted.id]


@pytest.mark.django_db(transaction=True)
def test_it_never_waits(connect):
    for _ in range(2):
        enqueue("h", {"k": 1})
    other = connect()
    [(first,)] = other.execute("SELECT id FROM pgqueue_dequeue_matching(p_handler => 'h')").fetchall()
    [second] = dequeue_matching(handler="h")
    assert second.id != first
    channel_set(channel="few", max_concurrency=1)
    for _ in range(2):
        enqueue("few", {}, channel="few")
    query = "SELECT id FROM pgqueue_dequeue_matching(p_limit => 5, p_handler => 'few')"
    assert len(other.execute(query).fetchall()) == 1
    assert dequeue_matching(limit=5, handler="few") == []
    other.commit()
    assert dequeue_matching(limit=5, handler="few") == []
    assert value("SELECT count(*) FROM pgqueue_message WHERE status = 2 AND handler = 'few'") == 1


def test_a_decorated_function_stands_for_its_name():
    @handlers.handler("test.matching")
    def send(delivery): ...

    try:
        wanted = enqueue(send)
        enqueue("other")
        assert ids(dequeue_matching(limit=9, handler=send)) == [wanted.id]
    finally:
        handlers.unregister("test.matching")
    with refused(InvalidMessage, "not registered"):
        dequeue_matching(handler=lambda delivery: None)


@cases(
    ("arguments", "says", "hint"),
    [
        ("", "dequeue_matching needs a handler or a payload: both are NULL", "pgqueue_dequeue()"),
        ("p_handler => 'h', p_look => 0", "dequeue_matching looks at 1 to 100000 messages, not at 0", "p_look"),
        ("p_handler => 'h', p_limit => 0", "dequeue_matching needs a limit of 1 to 10000, not 0", "p_limit"),
        ("p_handler => 'h', p_lease => '0'", "dequeue_matching needs a lease of more than 0", "interval"),
        ("p_queue => NULL, p_handler => 'h'", "dequeue_matching needs a queue, not NULL", "name of the queue"),
    ],
)
def test_a_refusal_says_the_one_thing_that_is_wrong(arguments: str, says: str, hint: str):
    with refused(DatabaseError) as raised:
        connection.cursor().execute(f"SELECT * FROM pgqueue_dequeue_matching({arguments})")
    diagnosis = raised.value.__cause__.diag
    assert diagnosis.message_primary.startswith(says)
    assert hint in diagnosis.message_hint


def test_matches_of_another_queue_do_not_hide_ours(searched: str):
    for queue in ("a", "b"):
        channel_set(queue=queue, channel="c")
    for _ in range(5):
        enqueue("h", {"region": "eu"}, queue="b", channel="c")
    enqueue("h", {"region": "eu"}, queue="a", channel="c")
    wanted = enqueue("h", {"region": "eu"}, queue="a", channel="c", priority=9)
    assert ids(dequeue_matching(queue="a", payload={"region": "eu"}, look=5)) == [wanted.id]
