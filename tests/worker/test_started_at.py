"""started_at: a worker leases ahead, so the start of a handler is later than its lease."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from django_pgqueue.models import ArchivedMessage, DeadLetter
from tests.support.sql import sql
from tests.worker.conftest import script, scripts

Drain = Callable[..., dict[str, int]]
NAP = timedelta(seconds=0.15)
SLEEP: list[Any] = ["sleep", NAP.total_seconds()]
MANY = 5
# One dequeue takes all of them, and they run one after the other.
ALONE: dict[str, Any] = {"once": True, "concurrency": 1, "async_concurrency": 1, "batch": MANY}


def times_of(name: str) -> list[timedelta]:
    """Return how long before its settlement each archived message was leased, or started."""
    return [each.archived_at - getattr(each, name) for each in ArchivedMessage.objects.all()]


def ends() -> dict[int, datetime]:
    """Return when each message had its effect, which is the last step of its handler, in the order of time."""
    return dict(sql("SELECT message_id, at FROM scripted_effect ORDER BY at"))


@pytest.mark.parametrize("handler", ["scripted", "scripted.atomic", "scripted.async"])
def test_the_time_of_a_handler_is_its_own_although_it_was_leased_earlier(drain: Drain, handler: str) -> None:
    scripts(MANY, SLEEP, ["effect"], handler=handler)
    assert drain(**ALONE) == {"completed": MANY}
    assert min(times_of("started_at")) >= NAP
    assert max(times_of("leased_at")) >= MANY * NAP
    ended = ends()
    started = dict(ArchivedMessage.objects.values_list("id", "started_at"))
    [_, *followers] = ended
    assert all(ended[before] <= started[message] for before, message in zip(ended, followers, strict=False))


def test_the_time_of_a_batch_is_shared_out_among_its_messages(drain: Drain) -> None:
    scripts(MANY, SLEEP, ["effect"], handler="scripted.batch.plain")
    assert drain(**ALONE) == {"completed": MANY}
    assert sum(times_of("started_at"), timedelta()) >= MANY * NAP
    # The start of the batch was before all of its effects.
    middle = sorted(ends().values())[MANY // 2]
    assert all(middle < started for started in ArchivedMessage.objects.values_list("started_at", flat=True))


def test_failures_and_refusals_have_their_start(drain: Drain) -> None:
    letters = [script(SLEEP, ["effect"], end, max_attempts=1) for end in (["dead_letter", "no"], ["fail", "no"])]
    assert drain(**ALONE) == {"dead_lettered": 2}
    first, second = DeadLetter.objects.filter(id__in=letters).order_by("id")
    assert first.dead_at - first.started_at >= NAP
    assert second.dead_at - second.started_at >= NAP
    assert ends()[first.id] <= second.started_at
