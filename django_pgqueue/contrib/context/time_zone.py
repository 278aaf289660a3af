"""Activate the enqueuer's time zone in the handler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from zoneinfo import ZoneInfo

from django.utils import timezone

from django_pgqueue.delivery import Delivery

KEY = "time_zone"


def capture() -> dict[str, str]:
    """Return the active time zone for the headers of a message; nothing for one without a name, such as a fixed
    offset."""
    name = getattr(timezone.get_current_timezone(), "key", None)
    return {KEY: name} if name else {}


@contextmanager
def restore(delivery: Delivery) -> Iterator[None]:
    """Activate the message's time zone around the handler, or that of its channel.

    Raises ZoneInfoNotFoundError for an unknown zone: times in a wrong zone would be worse than a message that fails.
    """
    name = delivery.headers.get(KEY, delivery.channel_context.get(KEY))
    if name is None:
        yield
    else:
        with timezone.override(ZoneInfo(name)):
            yield


restore.reads = (KEY,)  # type: ignore[attr-defined]  # mypy knows no attributes of functions
