from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from django_pgqueue import Cancelled, Delivery
from django_pgqueue.lifecycle.binding import to_delivery
from django_pgqueue.payloads import PayloadType, converted

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def delivery() -> Delivery:
    return Delivery(
        id=1, queue="q", channel="c", handler="h", payload=None, body=None, headers={}, priority=0, attempt=1,
        max_attempts=5, token=None, lease_expires_at=None, state=None, created_at=NOW, dequeue_at=NOW,
    )  # fmt: skip


def test_a_handler_ends_where_it_asks_once_its_cancellation_is_requested(delivery: Delivery) -> None:
    delivery.raise_if_cancelled()
    delivery.cancellation.request()
    with pytest.raises(Cancelled):
        delivery.raise_if_cancelled()


def test_a_delivery_that_is_to_be_cancelled_is_still_the_same(delivery: Delivery) -> None:
    before = repr(delivery)
    other = Delivery(**{name: getattr(delivery, name) for name in Delivery.__slots__})
    delivery.cancellation.request()
    assert delivery == other
    assert repr(delivery) == before


def test_a_header_cannot_change_what_the_context_of_the_channel_says(delivery: Delivery) -> None:
    given = replace(delivery, channel_context={"tenant": "acme"}, headers={"tenant": "bolt", "trace": 7})
    assert given.context == {"tenant": "acme", "trace": 7}


def test_the_copy_with_a_typed_payload_is_cancelled_with_the_delivery(delivery: Delivery) -> None:
    copy = converted(delivery, PayloadType(lambda value, path: [value]))
    delivery.cancellation.request()
    assert (copy.payload, copy.cancelled, delivery.payload) == ([None], True, None)


def test_a_delivery_from_a_row_is_complete_and_frozen_as_any_other() -> None:
    token, moment = uuid4(), "2030-01-01 00:00:00+00"
    leased = (str(token), moment)
    row = (1, "c", "h", '{"n": 1}', b"x", '{"h": 2}', 3, 4, 5, *leased, "[6]", moment, moment, '{"t": 7}', None)
    found = to_delivery("q", row, "w")
    assert found == Delivery(
        id=1, queue="q", channel="c", handler="h", payload={"n": 1}, body=b"x", headers={"h": 2}, priority=3, attempt=4,
        max_attempts=5, token=token, lease_expires_at=NOW, state=[6], created_at=NOW, dequeue_at=NOW,
        channel_context={"t": 7}, last_leased_at=None, worker="w",
    )  # fmt: skip
    assert type(found) is Delivery
    assert not found.cancelled
    assert replace(found, id=8).id == 8
    with pytest.raises(FrozenInstanceError):
        found.id = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del found.token  # type: ignore[misc]
