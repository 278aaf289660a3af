"""Helpers for the tests of ordered channels."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_pgqueue import Delivery, retry

HOUR = timedelta(hours=1)


def fail(delivery: Delivery, delay: timedelta = HOUR) -> None:
    """Put a message back for its next attempt, as a worker does after an exception."""
    retry(delivery, errors=[{"type": "E"}], delays=[delay])


def numbers(deliveries: list[Delivery]) -> list[Any]:
    """Return the payloads."""
    return [delivery.payload for delivery in deliveries]
