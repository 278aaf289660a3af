"""The errors that the checkers must find. Nothing imports this module: some are errors at import, too."""

from datetime import timedelta

from django_pgqueue import Delivery, NewMessage, channel_set, enqueue, handler
from shop.handlers import confirm, print_invoice
from shop.payloads import OrderPayload


def send() -> None:
    confirm.enqueue({"order": "seven"})  # error
    confirm.enqueue()  # error
    confirm.enqueue({"order": 7}, chanel="acme")  # error
    confirm.enqueue({"order": 7}, delay=5)  # error
    print_invoice.enqueue({"order": 7})  # error
    enqueue(send, {})  # error
    NewMessage(handler=send)  # error
    channel_set(channel="acme", max_concurency=3)  # error
    channel_set(channel="acme", max_size="3")  # error


@handler("wrong.single", batch=10)  # error
def single(delivery: Delivery) -> None: ...


@handler("wrong.batch")  # error
def batch(deliveries: list[Delivery]) -> None: ...


@handler("wrong.answer")  # error
def answer(delivery: Delivery) -> bool:
    return True


@handler  # error
def no_name(delivery: Delivery) -> None: ...


@handler("wrong.timeout", timeout=5)  # error
def timeout(delivery: Delivery) -> None: ...


@handler("wrong.key", backoff=timedelta(seconds=1))
def key(delivery: Delivery[OrderPayload]) -> None:
    delivery.payload["odrer"]  # error
    delivery.payload = {"order": 1}  # error
