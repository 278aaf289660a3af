from __future__ import annotations

from datetime import UTC, datetime

import pytest

from django_pgqueue import Cancelled, Delivery
from django_pgqueue.payloads import converted

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


def test_the_copy_with_a_typed_payload_is_cancelled_with_the_delivery(delivery: Delivery) -> None:
    copy = converted(delivery, lambda value, path: [value])
    delivery.cancellation.request()
    assert (copy.payload, copy.cancelled, delivery.payload) == ([None], True, None)
