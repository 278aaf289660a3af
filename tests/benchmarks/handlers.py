"""Handlers that do nothing: what is left is the cost of the queue and of the worker."""

from django_pgqueue.delivery import Delivery
from django_pgqueue.handlers import handler


@handler("benchmark.noop")
def noop(delivery: Delivery) -> None: ...


@handler("benchmark.atomic_noop", atomic=True)
def atomic_noop(delivery: Delivery) -> None: ...


@handler("benchmark.async_noop")
async def async_noop(delivery: Delivery) -> None: ...
