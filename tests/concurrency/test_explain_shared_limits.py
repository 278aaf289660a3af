"""Explain names the shared limit that a message waits for."""

from __future__ import annotations

import pytest

from tests.support.sessions import Session
from tests.support.verbs import dequeue, enqueue, limit_set, make_channel, send


@pytest.fixture
def channels(session: Session) -> None:
    make_channel(session, "a")


def reasons(session: Session, message: int) -> dict[str, str]:
    rows = session.execute("SELECT code, sentence FROM pgqueue_explain_message(%s)", [message])
    return dict(rows.fetchall())


def test_explain_says_which_limit_is_full_and_how_many_wait_before(session: Session, channels: None) -> None:
    limit_set(session, "stripe", max_concurrency=1)
    ids = send(session, "a", 3)
    assert len(dequeue(session)) == 1

    found = reasons(session, ids[2])

    assert found["shared_limit_full"] == "The shared limit stripe has no room: 1 of 1 places are taken."
    assert found["waits_for_limit"] == (
        "It waits for the shared limit stripe. Messages of its channel before it there: 1."
    )


def test_explain_says_until_when_a_rate_has_no_token(session: Session, channels: None) -> None:
    limit_set(session, "stripe", release_interval="1 hour")
    ids = send(session, "a", 2)
    assert len(dequeue(session)) == 1

    found = reasons(session, ids[1])["shared_limit_rate"]
    assert found.startswith("The shared limit stripe has no token for it before ")


def test_explain_says_why_a_handler_is_paused(session: Session, channels: None) -> None:
    [message] = [enqueue(session, "a")]
    session.execute("SELECT pgqueue_handler_pause('work', 'Stripe is down')")

    assert reasons(session, message)["shared_limit_paused"].endswith(". Reason: Stripe is down")


def test_explain_names_the_message_of_the_order_key_that_goes_before(session: Session, channels: None) -> None:
    first, second = (enqueue(session, "a", order_key="invoice-7") for _ in range(2))
    assert reasons(session, second)["waits_for_order_key"] == (
        f"It waits for message {first} of the order key invoice-7, which is ready."
    )
    assert len(dequeue(session, 10)) == 1

    assert reasons(session, second)["waits_for_order_key"] == (
        f"It waits for message {first} of the order key invoice-7, which is leased."
    )
    assert "waits_for_order_key" not in reasons(session, first)
