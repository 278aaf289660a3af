"""All kinds of handlers, and all that they may answer: no checker finds anything here."""

from datetime import date, timedelta
from typing import assert_type

from django_pgqueue import Complete, Constant, Defer, Delivery, Reject, Retry, handler, schedule
from shop.models import Order
from shop.payloads import Invoice, OrderPayload


@handler("shop.confirm", atomic=True)
def confirm(delivery: Delivery[OrderPayload]) -> Reject | None:
    assert_type(delivery.payload["order"], int)
    if not Order.objects.filter(pk=delivery.payload["order"]).update(confirmed=True):
        return Reject("no_such_order")
    return None


@handler("shop.print", timeout=timedelta(minutes=2), max_attempts=3, backoff=Constant(timedelta(seconds=1)))
def print_invoice(delivery: Delivery[Invoice]) -> Complete | Defer | Retry:
    assert_type(delivery.payload.due, date)
    if delivery.last_attempt:
        return Retry(after=timedelta(hours=1))
    return Complete(result=delivery.payload.order)


@handler("shop.call", concurrency=20, backoff=lambda attempt, error: timedelta(seconds=attempt))
async def call(delivery: Delivery[OrderPayload]) -> None:
    await call.aenqueue({"order": delivery.payload["order"] + 1}, delay=timedelta(hours=1))


@handler("shop.count", batch=100, atomic=True)
def count(deliveries: list[Delivery[OrderPayload]]) -> dict[int, Reject]:
    return {delivery.id: Reject("negative") for delivery in deliveries if delivery.payload["order"] < 0}


@handler("shop.count_async", batch=10)
async def count_async(deliveries: list[Delivery[Invoice]]) -> None: ...


@handler("shop.any")
def takes_anything(delivery: Delivery) -> None:
    delivery.raise_if_cancelled()


@schedule("0 3 * * *")
@handler("shop.nightly")
def nightly(delivery: Delivery[None]) -> None: ...
