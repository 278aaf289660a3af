"""make_delivery and run_handler: no test here has a database."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from django_pgqueue import Complete, Delivery, Reject, Retry, handler
from django_pgqueue.exceptions import HandlerError, InvalidMessage
from django_pgqueue.testing import make_delivery, run_handler


def test_the_outcome_is_returned_whether_it_was_returned_or_raised():
    @handler("t.answer")
    def answer(delivery):
        if delivery.payload == "raise":
            raise Reject("unwanted")
        return Retry() if delivery.payload == "return" else None

    assert isinstance(run_handler("t.answer", "raise"), Reject)
    assert isinstance(run_handler("t.answer", "return"), Retry)
    assert isinstance(run_handler(answer), Complete)


def test_the_delivery_is_that_of_a_worker_and_its_fields_can_be_given(calls):
    handler("t.note", queue="mail", max_attempts=3)(calls.append)

    run_handler("t.note", {"amount": Decimal("1.50"), "pair": (1, 2)}, attempt=3, channel="acme", headers={"a": 1})

    [delivery] = calls
    assert isinstance(delivery, Delivery)
    assert (delivery.handler, delivery.queue, delivery.channel) == ("t.note", "mail", "acme")
    assert delivery.payload == {"amount": "1.50", "pair": [1, 2]}
    assert delivery.last_attempt
    assert delivery.context == {"a": 1}


def test_async_and_batch_handlers_are_called_as_they_are():
    @handler("t.async")
    async def asynchronous(delivery):
        return Complete(result=delivery.payload)

    @handler("t.batch", batch=10)
    def batch(deliveries):
        return {delivery.id: Complete(result=len(deliveries)) for delivery in deliveries}

    assert run_handler("t.async", 7).result == 7
    assert run_handler("t.batch", id=4711).result == 1


def test_an_answer_that_is_no_outcome_is_an_error():
    handler("t.nonsense")(lambda delivery: 42)
    handler("t.batch", batch=2)(lambda deliveries: {99: Complete()})

    with pytest.raises(HandlerError, match="returned int"):
        run_handler("t.nonsense")
    with pytest.raises(HandlerError, match="takes a batch"):
        run_handler("t.batch")


def test_a_function_with_two_names_needs_one_of_them():
    def note(delivery): ...

    handler("t.one")(note)
    handler("t.two")(note)

    with pytest.raises(InvalidMessage, match=r"t\.one, t\.two"):
        run_handler(note)
    assert make_delivery("t.two", created_at=datetime(2026, 1, 1, tzinfo=UTC)).created_at.year == 2026
