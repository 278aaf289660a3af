"""Define the pytest plugin, which its entry point loads. It imports Django only inside of its fixtures, because pytest
loads it in every project with this package, before there are settings."""

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
    """Return ``drain``, which runs the handlers of the test's messages, on the connection of the test."""
    from django_pgqueue.testing.drainer import drain

    return drain


@pytest.fixture
def pgqueue_enqueued(db: None) -> Callable[..., list[Message]]:
    """Return ``enqueued``, which returns the messages that wait."""
    from django_pgqueue.testing.waiting import enqueued

    return enqueued


@pytest.fixture
def pgqueue_clock(db: None) -> Iterator[Clock]:
    """Freeze the clock of the queue at the moment at which the test begins; ``tick`` and ``move_to`` move it."""
    from django_pgqueue.testing.clock import freeze_clock

    with freeze_clock() as clock:
        yield clock
