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

    assert found["shared_limit_full"] == (
        "The shared limit stripe has no room: 1 of 1 places are taken, held by default/a (1)."
    )
    assert found["waits_for_limit"] == (
        "It waits for the shared limit stripe. Messages of its channel before it there: 1."
    )


def test_explain_says_why_a_handler_is_paused(session: Session, channels: None) -> None:
    [message] = [enqueue(session, "a")]
    session.execute("SELECT pgqueue_handler_pause('work', 'Stripe is down')")

    found = reasons(session, message)["shared_limit_paused"]
    assert found.startswith("The handler work is paused since ")
    assert found.endswith(". Reason: Stripe is down")


def of_channel(session: Session, channel: str = "a") -> dict[str, str]:
    rows = session.execute("SELECT code, sentence FROM pgqueue_explain_channel('default', %s)", [channel])
    return dict(rows.fetchall())


def test_a_channel_says_which_full_limit_its_messages_wait_for_and_who_holds_it(session: Session) -> None:
    for name in ("a", "b"):
        make_channel(session, name)
    limit_set(session, "stripe", max_concurrency=2)
    send(session, "b", 2)
    assert len(dequeue(session, 2)) == 2
    send(session, "a", 3)
    assert dequeue(session, 3) == []

    found = of_channel(session)

    assert found["shared_limit_full"] == (
        "The shared limit stripe has no room: 2 of 2 places are taken, held by default/b (2)."
    )
    assert found["waits_for_limit"] == "Messages of it that wait for the shared limit stripe: 3."
    assert found["empty"] == "Nothing of it is ready. Leased messages: 0."


def test_a_channel_says_that_an_ordered_message_waits_for_a_paused_handler(session: Session) -> None:
    make_channel(session, "a", ordered=True, max_concurrency=1)
    enqueue(session, "a")
    session.execute("SELECT pgqueue_handler_pause('work', 'Stripe is down')")
    assert dequeue(session) == []

    found = of_channel(session)

    assert found["shared_limit_paused"].startswith("The handler work is paused since ")
    assert "was deferred" not in found.get("ordered", "")


def test_a_channel_says_which_message_its_order_keys_wait_for(session: Session, channels: None) -> None:
    ids = [enqueue(session, "a", order_key="invoice-7") for _ in range(3)]
    assert len(dequeue(session, 10)) == 1

    assert of_channel(session)["waits_for_order_key"] == (
        f"Messages of it that wait for their order key: 2. The first is message {ids[1]}. "
        f"It waits for message {ids[0]} of the order key invoice-7, which is leased."
    )


def test_explain_says_that_the_message_before_it_has_failed_and_when_it_is_tried_again(
    session: Session, channels: None
) -> None:
    first, second = (enqueue(session, "a", order_key="invoice-7") for _ in range(2))
    [lease] = dequeue(session, 10)
    session.execute(
        "SELECT * FROM pgqueue_retry(%s, %s, %s::jsonb[], ARRAY['1 hour'::interval])",
        [[lease.id], [lease.token], ['{"type": "LockedError", "message": "secret"}']],
    )

    found = reasons(session, second)["waits_for_order_key"]
    assert found.startswith(f"It waits for message {first} of the order key invoice-7, which is scheduled for 20")
    assert found.endswith(", after its attempt 1 failed with LockedError.")
