"""started_at: a worker leases ahead, so the start of a handler is later than its lease."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue.models import ArchivedMessage, DeadLetter
from tests.worker.conftest import script, scripts

Drain = Callable[..., dict[str, int]]
NAP = timedelta(seconds=0.15)
SLEEP: list[Any] = ["sleep", NAP.total_seconds()]
MANY = 5


def times_of(name: str) -> list[timedelta]:
    """Return how long before its settlement each archived message was leased, or started."""
    return [each.archived_at - getattr(each, name) for each in ArchivedMessage.objects.all()]


@pytest.mark.parametrize("handler", ["scripted", "scripted.atomic", "scripted.async"])
def test_the_time_of_a_handler_is_its_own_although_it_was_leased_earlier(drain: Drain, handler: str) -> None:
    scripts(MANY, SLEEP, handler=handler)
    assert drain(concurrency=1, async_concurrency=1, batch=MANY) == {"completed": MANY}
    assert all(NAP <= ran < 2 * NAP for ran in times_of("started_at"))
    assert max(times_of("leased_at")) > 2 * NAP


def test_the_time_of_a_batch_is_shared_out_among_its_messages(drain: Drain) -> None:
    scripts(MANY, SLEEP, handler="scripted.batch.plain")
    assert drain(concurrency=1) == {"completed": MANY}
    assert MANY * NAP <= sum(times_of("started_at"), timedelta()) < (MANY + 1) * NAP


def test_failures_and_refusals_have_their_start(drain: Drain) -> None:
    letters = [script(SLEEP, end, max_attempts=1) for end in (["dead_letter", "no"], ["fail", "no"])]
    assert drain(concurrency=1) == {"dead_lettered": 2}
    for letter in DeadLetter.objects.filter(id__in=letters):
        assert letter.started_at is not None
        assert NAP <= letter.dead_at - letter.started_at < 2 * NAP
