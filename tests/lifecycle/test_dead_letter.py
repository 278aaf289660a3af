from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_set, dead_letter, dequeue, enqueue
from django_pgqueue.models import DeadLetter
from tests.support.messages import lease_messages, live, places
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def test_a_dead_letter_keeps_the_message_and_says_why():
    sent = enqueue(
        "greet",
        {"n": 1},
        body=b"\xff",
        headers={"x": 1},
        priority=4,
        dedupe_key="k",
        max_attempts=3,
        backoff=timedelta(seconds=1),
    )
    [delivery] = dequeue(worker="me")
    created, leased_at = live(sent.id, "created_at", "leased_at")
    assert dead_letter(delivery, reason="cancelled", details={"flight": 7}) == {sent.id}
    assert places(sent.id) == ["dead letters"]
    letter = DeadLetter.objects.get(pk=sent.id)
    assert (letter.reason, letter.details) == ("cancelled", {"flight": 7})
    assert (letter.queue, letter.channel, letter.handler, letter.payload) == ("default", "default", "greet", {"n": 1})
    assert (bytes(letter.body), letter.headers, letter.priority, letter.dedupe_key) == (b"\xff", {"x": 1}, 4, "k")
    assert (letter.attempts, letter.max_attempts, letter.backoff, letter.worker) == (1, 3, timedelta(seconds=1), "me")
    assert (letter.created_at, letter.leased_at) == (created, leased_at)
    assert letter.dead_at >= leased_at
    assert (letter.redriven_at, letter.redriven_to) == (None, None)


def test_a_dead_letter_frees_its_place_its_room_and_its_key():
    channel_set(channel="default", max_concurrency=1, max_size=1)
    [delivery] = lease_messages(dedupe_key="k")
    dead_letter(delivery, reason="refused")
    assert enqueue("h", dedupe_key="k").created
    assert len(dequeue()) == 1


def test_a_message_whose_channel_was_deleted_is_kept_all_the_same():
    [delivery] = lease_messages()
    sql("DELETE FROM pgqueue_channel")
    dead_letter(delivery, reason="refused")
    assert places(delivery.id) == ["dead letters"]


def test_a_reason_that_is_too_long_is_cut_rather_than_that_plain_sql_loses_the_message():
    [delivery] = lease_messages()
    sql("SELECT pgqueue_dead_letter(%s, %s, ARRAY[repeat('x', 1000)])", [delivery.id], [delivery.token])
    assert DeadLetter.objects.get().reason == "x" * 200


# The server log.


def test_the_server_log_says_what_died_and_why(server_log: list[str]):
    first, second = lease_messages(2)
    dead_letter([first, second], reason="cancelled")
    [warning] = server_log
    assert "2 message(s) dead-lettered" in warning
    assert '"cancelled"' in warning
    assert str(first.id) in warning


def test_warnings_are_held_back_for_ten_seconds(server_log: list[str]):
    deliveries = lease_messages(4)
    for delivery in deliveries[:3]:
        dead_letter(delivery, reason="refused")
    assert len(server_log) == 1
    sql("SELECT setval('pgqueue_warned_dead_letter', last_value - 9) FROM pgqueue_warned_dead_letter")
    sql("SELECT setval('pgqueue_warned_dead_letter', last_value - 1) FROM pgqueue_warned_dead_letter")
    dead_letter(deliveries[3], reason="refused")
    assert len(server_log) == 2


def test_it_is_a_function_of_the_database_too():
    one, two = lease_messages(2)
    found = sql(
        "SELECT * FROM pgqueue_dead_letter("
        "%s, %s, p_reasons => ARRAY['a', NULL], p_details => ARRAY['{\"n\": 1}', NULL]::jsonb[])",
        [one.id, two.id], [one.token, two.token],
    )  # fmt: skip
    assert sorted(found) == [(one.id,), (two.id,)]
    assert list(DeadLetter.objects.order_by("id").values_list("reason", "details")) == [
        ("a", {"n": 1}),
        ("rejected", None),
    ]
