"""Helpers for the tests of ordered channels."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_pgqueue import Delivery, complete, dequeue, retry

HOUR = timedelta(hours=1)


def fail(delivery: Delivery, delay: timedelta = HOUR) -> None:
    """Put a message back for its next attempt, as a worker does after an exception."""
    retry(delivery, errors=[{"type": "E"}], delays=[delay])


def numbers(deliveries: list[Delivery]) -> list[Any]:
    """Return the payloads."""
    return [delivery.payload for delivery in deliveries]


def one_by_one(count: int) -> list[Any]:
    """Complete so many messages, of which each dequeue delivers one, and return their payloads."""
    served = []
    for _ in range(count):
        [delivery] = dequeue(limit=10)
        served.append(delivery.payload)
        complete(delivery)
    return served
