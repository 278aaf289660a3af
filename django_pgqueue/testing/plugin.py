"""The pytest plugin, found by its entry point. It must be cheap to load, and knows Django only inside of its fixtures:
pytest loads it in every project that has this package, before there are settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from django_pgqueue.models import Message
    from django_pgqueue.testing.clock import Clock
    from django_pgqueue.testing.drained import Drained


@pytest.fixture
def pgqueue_drain(db: None) -> Callable[..., Drained]:
    """``drain``: runs the handlers of what the test has enqueued, on the connection of the test."""
    from django_pgqueue.testing.drainer import drain

    return drain


@pytest.fixture
def pgqueue_enqueued(db: None) -> Callable[..., list[Message]]:
    """``enqueued``: the messages that wait."""
    from django_pgqueue.testing.waiting import enqueued

    return enqueued


@pytest.fixture
def pgqueue_clock(db: None) -> Iterator[Clock]:
    """Both clocks stand still, at the moment at which the test begins; ``tick`` and ``move_to`` move them."""
    from django_pgqueue.testing.clock import freeze_clock

    with freeze_clock() as clock:
        yield clock
