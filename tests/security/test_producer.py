"""A program that may only enqueue steers workers as the table of SECURITY.md says, and other channels go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support import verbs
from tests.support.sessions import Session, one

Login = Callable[..., Session]


@pytest.fixture
def producer(empty: Session, login: Login) -> Session:
    """A producer beside another tenant, whose one message waits on the channel "other"."""
    for name in ("hostile", "other"):
        verbs.make_channel(empty, name)
    return login("producer")


def send(producer: Session, **given: Any) -> tuple[int | None, str]:
    """Enqueue by SQL, as a program without Django does; return the id and the outcome."""
    named = {"channel": "hostile", "queue": "default"} | given
    arguments = ", ".join(f"p_{name} => %s" for name in named)
    values = [Jsonb(value) if isinstance(value, dict) else value for value in named.values()]
    return producer.execute(f"SELECT id, outcome FROM pgqueue_enqueue('h', {arguments})", values).fetchone()


def test_it_chooses_any_channel_and_makes_new_ones_without_a_context(empty: Session, producer: Session) -> None:
    assert send(producer, channel="other")[1] == "created"
    assert send(producer, channel="nowhere") == (None, "not_found")
    assert send(producer, channel="new", create_channel=True)[1] == "created"
    assert send(producer, queue="new", create_channel=True)[1] == "created"
    assert one(empty, "SELECT context FROM pgqueue_channel WHERE name = 'new'") == {}
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        producer.execute("UPDATE pgqueue_channel SET context = '{}'")


def test_attempts_without_end_and_without_a_pause_take_no_turn_of_another_channel(
    empty: Session, producer: Session
) -> None:
    for _ in range(5):
        send(producer, max_attempts=2**31 - 1, backoff="0", backoff_factor=1)
    for _ in range(20):
        waiting = verbs.enqueue(empty, "other")
        served = []
        for _ in range(2):
            [lease] = verbs.dequeue(empty)
            served.append(lease.id)
            if lease.id == waiting:
                verbs.settle(empty, [lease])
                break
            verbs.retry(empty, [lease])
        assert waiting in served


def test_the_longest_pause_and_the_most_attempts_are_no_error_of_a_worker(empty: Session, producer: Session) -> None:
    send(producer, backoff="365000 days", backoff_factor=1000, backoff_longest="365000 days", max_attempts=2**31 - 1)
    [lease] = verbs.dequeue(empty)
    empty.execute(
        "SELECT pgqueue_retry(ARRAY[%s::bigint], ARRAY[%s::uuid], ARRAY['{}']::jsonb[])", [lease.id, lease.token]
    )
    assert one(empty, "SELECT status FROM pgqueue_message") == 3


def test_it_can_fill_a_shared_limit_and_cannot_leave_out_that_of_a_handler(empty: Session, producer: Session) -> None:
    verbs.limit_set(empty, "api", max_concurrency=1)
    verbs.limit_set(empty, "of handler", max_concurrency=1, handlers=["h"])
    first, _ = send(producer, limits=["api"] * 1000)
    assert [lease.id for lease in verbs.dequeue(empty, 10)] == [first]
    send(producer)
    assert verbs.dequeue(empty, 10) == []
    assert send(producer, limits=["nowhere"]) == (None, "invalid")
    waits = one(empty, "SELECT id FROM pgqueue_enqueue('work', '{}', 'other', p_limits => ARRAY['api'])")
    free = verbs.enqueue(empty, "other")
    assert [lease.id for lease in verbs.dequeue(empty, 10)] == [free]
    assert one(empty, "SELECT waits_for FROM pgqueue_message WHERE id = %s", waits) is not None


@pytest.mark.parametrize("given", [{"order_key": "invoice-7"}, {}], ids=["order key", "ordered channel"])
def test_a_late_message_holds_its_order_in_its_channel_alone(
    empty: Session, producer: Session, given: dict[str, Any]
) -> None:
    if not given:
        verbs.make_channel(empty, "hostile", ordered=True)
    send(producer, dequeue_at="9998-01-01", **given)
    held = verbs.enqueue(empty, "hostile", **given)
    free = verbs.enqueue(empty, "other", **given)
    found = [lease.id for lease in verbs.dequeue(empty, 10)]
    assert free in found
    # An ordered channel skips what is scheduled; a key does not.
    assert (held in found) is (not given)


def test_a_dedupe_key_is_occupied_in_its_channel_alone(empty: Session, producer: Session) -> None:
    occupied, outcome = send(producer, dedupe_key="invoice-7", dequeue_at="9998-01-01")
    assert outcome == "created"
    assert send(producer, dedupe_key="invoice-7") == (occupied, "duplicate")
    assert send(producer, channel="other", dedupe_key="invoice-7")[1] == "created"


@pytest.mark.parametrize(
    ("policy", "outcome", "left"),
    [("error", "full", True), ("drop", "dropped", True), ("drop_oldest", "created", False)],
)
def test_it_fills_a_channel_with_a_size_and_drops_others_only_by_the_policy_of_the_channel(
    empty: Session, producer: Session, policy: str, outcome: str, left: bool
) -> None:
    empty.execute("UPDATE pgqueue_channel SET max_size = 2, full_policy = %s WHERE name = 'other'", [policy])
    before = verbs.enqueue(empty, "other")
    assert [send(producer, channel="other")[1] for _ in range(2)] == ["created", outcome]
    assert one(empty, "SELECT count(*) FROM pgqueue_message WHERE id = %s", before) == left


def test_a_function_of_a_producer_opens_one_handler_and_channel_to_a_stranger(
    empty: Session, producer: Session, login: Login, roles: dict[str, str]
) -> None:
    empty.execute(
        "CREATE FUNCTION shop_enqueue(p_order bigint) RETURNS bigint LANGUAGE sql SECURITY DEFINER "
        "SET search_path = public, pg_temp AS $$ SELECT id FROM pgqueue_enqueue("
        "'shop.confirm', jsonb_build_object('order', p_order), 'hostile') $$"
    )
    try:
        empty.execute(f"ALTER FUNCTION shop_enqueue OWNER TO {roles['producer']}")
        stranger = login("stranger")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stranger.execute("SELECT id FROM pgqueue_enqueue('h')")
        sent = one(stranger, "SELECT shop_enqueue(7)")
        assert empty.execute("SELECT handler, payload FROM pgqueue_message WHERE id = %s", [sent]).fetchone() == (
            "shop.confirm",
            {"order": 7},
        )
    finally:
        empty.execute("DROP FUNCTION shop_enqueue")
