"""All ways to enqueue: no checker finds anything here."""

from datetime import date, timedelta
from typing import assert_type

from django_pgqueue import Delivery, Enqueued, NewMessage, aenqueue, channel_set, dequeue, enqueue, enqueue_many
from shop.handlers import call, confirm, count, nightly, print_invoice, takes_anything
from shop.payloads import Invoice, OrderPayload


def send() -> int | None:
    assert_type(confirm.enqueue({"order": 7, "copies_to": ["a@b"]}, channel="acme", priority=3), Enqueued)
    print_invoice.enqueue(Invoice(7, date(2026, 6, 1)), delay=timedelta(days=1))
    count.enqueue({"order": 7}, dedupe_key="today")
    takes_anything.enqueue()
    takes_anything.enqueue([1, "a"])
    payload: OrderPayload = {"order": 7}
    enqueue(confirm, payload, channel="acme")
    enqueue(confirm, {"order": 7})
    enqueue(print_invoice, Invoice(7, date(2026, 6, 1)))
    enqueue(takes_anything)
    enqueue("shop.confirm", {"order": 7})
    enqueue_many([NewMessage(handler="shop.confirm", payload={"order": 7})])
    enqueue_many(NewMessage(handler=confirm, payload={"order": number}) for number in range(3))
    channel_set(channel="acme", max_size=None, rate="10/m", full_policy="drop")
    return nightly.enqueue().id


async def asend() -> Enqueued:
    await call.aenqueue({"order": 7})
    assert_type(await aenqueue(call, {"order": 7}), Enqueued)
    return await aenqueue("shop.call", {"order": 7}, using="default")


def call_it_in_a_test(delivery: Delivery[OrderPayload]) -> None:
    answer = confirm(delivery)
    if answer is not None:
        assert_type(answer.reason, str)
    [taken] = dequeue(queue="default", limit=1)
    assert taken.attempt == 1
