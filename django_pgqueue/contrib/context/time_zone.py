"""The current time zone of the enqueuer in the handler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from zoneinfo import ZoneInfo

from django.utils import timezone

from django_pgqueue.delivery import Delivery

KEY = "time_zone"


def capture() -> dict[str, str]:
    """Nothing for a time zone without a name in the time zone database, such as a fixed offset."""
    name = getattr(timezone.get_current_timezone(), "key", None)
    return {KEY: name} if name else {}


@contextmanager
def restore(delivery: Delivery) -> Iterator[None]:
    """Raises ZoneInfoNotFoundError: times in a wrong zone would be worse than a message that fails."""
    name = delivery.context.get(KEY)
    if name is None:
        yield
    else:
        with timezone.override(ZoneInfo(name)):
            yield


restore.reads = (KEY,)  # type: ignore[attr-defined]  # mypy knows no attributes of functions
