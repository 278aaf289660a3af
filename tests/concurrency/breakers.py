"""Breakers for tests: one of the handler work, failures, and the end of a pause."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, enqueue, make_channel, retry


@pytest.fixture
def channels(session: Session) -> None:
    """Make the channels a and b."""
    make_channel(session, "a")
    make_channel(session, "b")


def breaker_set(session: Session, **settings: Any) -> None:
    given = {"failures": 3, "within": "1 minute", "pause": "1 hour", **settings}
    assert one(session, "SELECT outcome FROM pgqueue_breaker_set('work', %s)", json.dumps(given)) == "created"


def fail(session: Session, times: int, channel: str = "a") -> None:
    for _ in range(times):
        enqueue(session, channel)
        [lease] = dequeue(session)
        retry(session, [lease], delay="1 hour")


def pass_pause(session: Session) -> None:
    """Let the pause of all open breakers be over."""
    session.execute("""UPDATE pgqueue_limit SET opened_at = opened_at - interval '2 hours',
        open_until = open_until - interval '2 hours'""")
    session.execute("UPDATE pgqueue_breaker_outcome SET ended_at = ended_at - interval '2 hours'")


def is_open(session: Session) -> bool:
    return one(session, "SELECT bool_or(open_until IS NOT NULL) FROM pgqueue_limit")
