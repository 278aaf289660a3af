"""A limit that is one for each channel: every channel has its own places, tokens and debts, across handlers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.support.sessions import Session, column, one
from tests.support.verbs import dequeue, enqueue, limit_set, make_channel, send, settle, tick

ROWS = "SELECT count(*) FROM pgqueue_limit WHERE parent_id IS NOT NULL"


@pytest.fixture(autouse=True)
def channels(session: Session) -> list[str]:
    names = ["a", "b", "c"]
    for name in names:
        make_channel(session, name)
    return names


def taken(*leases: Iterable[object]) -> Counter[str]:
    return Counter(lease.channel for some in leases for lease in some)  # type: ignore[attr-defined]


def enqueue_for(session: Session, handler: str, channel: str, limits: list[str] | None = None) -> int:
    sql = "SELECT id FROM pgqueue_enqueue(%s, '{}', %s, p_limits => %s)"
    return one(session, sql, handler, channel, limits)


def drain(session: Session, calls: int = 8) -> list[object]:
    """Dequeue and tick until nothing has room any more."""
    return [lease for _ in range(calls) for lease in [*dequeue(session, 20), *(tick(session) or ())]]


@pytest.mark.parametrize("by_handler", [True, False])
def test_each_channel_has_its_own_places(session: Session, channels: list[str], by_handler: bool) -> None:
    handlers = ["mail.send", "mail.remind"] if by_handler else []
    limit_set(session, "mails", max_concurrency=2, per="channel", handlers=handlers)
    for name in channels:
        for handler in ["mail.send", "mail.remind"] * 3:
            enqueue_for(session, handler, name, None if by_handler else ["mails"])

    held = drain(session)

    assert taken(held) == {"a": 2, "b": 2, "c": 2}
    settle(session, [lease for lease in held if lease.channel == "b"])  # type: ignore[attr-defined]
    assert taken(drain(session)) == {"b": 2}


def test_each_channel_has_its_own_tokens_and_burst(session: Session, channels: list[str]) -> None:
    limit_set(session, "mails", release_interval="1 hour", release_burst=3, per="channel")
    for name in channels:
        send(session, name, 5, ["mails"])

    assert taken(drain(session)) == {"a": 3, "b": 3, "c": 3}
    session.execute(
        "UPDATE pgqueue_meter AS r SET filled_at = filled_at - interval '2 hours' FROM pgqueue_limit AS l "
        "JOIN pgqueue_channel AS c ON c.id = l.channel_id WHERE l.id = r.limit_id AND c.name = 'b'"
    )
    assert taken(drain(session)) == {"b": 2}


def test_the_cost_of_a_channel_is_its_own(session: Session, channels: list[str]) -> None:
    limit_set(session, "gpt", max_cost=10, per="channel")
    for name in channels:
        for _ in range(4):
            enqueue(session, name, limits=["gpt"], cost=4)

    assert taken(drain(session)) == {"a": 2, "b": 2, "c": 2}


def test_two_sessions_keep_to_one_limit_of_a_channel(session: Session, business: Session) -> None:
    limit_set(session, "mails", max_concurrency=3, per="channel")
    send(session, "a", 1, ["mails"])
    settle(session, dequeue(session))
    send(session, "a", 10, ["mails"])

    first = dequeue(business, 2)
    beside = dequeue(session, 10)
    business.commit()

    assert taken(first) == {"a": 2}
    assert not beside, "the open transaction holds the limit of the channel"
    assert taken(drain(session)) == {"a": 1}


def test_an_open_dequeue_of_a_channel_holds_up_no_other_one(session: Session, business: Session) -> None:
    limit_set(session, "mails", max_concurrency=3, per="channel")
    for name in ("a", "b"):
        send(session, name, 1, ["mails"])
    settle(session, dequeue(session, 2))
    for name in ("a", "b"):
        send(session, name, 5, ["mails"])

    first = dequeue(business, 1)
    beside = drain(session)

    assert taken(first, beside) == {"a": 1, "b": 3} or taken(first, beside) == {"a": 3, "b": 1}
    business.commit()


def test_the_first_messages_of_a_channel_in_two_sessions_share_its_limit(session: Session, business: Session) -> None:
    limit_set(session, "mails", max_concurrency=2, per="channel")
    send(session, "a", 6, ["mails"])

    first = dequeue(business, 1)
    beside = drain(session)
    business.commit()
    later = drain(session)

    assert taken(first, beside, later) == {"a": 2}
    assert one(session, ROWS) == 1


def test_an_edit_holds_at_once_for_each_channel(session: Session) -> None:
    limit_set(session, "mails", max_concurrency=1, per="channel")
    for name in ("a", "b"):
        send(session, name, 5, ["mails"])
    assert taken(drain(session)) == {"a": 1, "b": 1}

    limit_set(session, "mails", max_concurrency=3)

    assert taken(drain(session)) == {"a": 2, "b": 2}


def test_a_limit_with_a_rate_counts_what_runs_when_it_gets_a_max_concurrency(session: Session) -> None:
    limit_set(session, "mails", release_interval="1 second", release_burst=3, per="channel")
    send(session, "a", 6, ["mails"])
    assert len(drain(session)) == 3

    limit_set(session, "mails", release_interval=None, max_concurrency=4)

    assert len(drain(session)) == 1


def test_a_pause_holds_in_each_channel_until_it_is_resumed(session: Session) -> None:
    limit_set(session, "mails", max_concurrency=1, per="channel")
    for name in ("a", "b"):
        send(session, name, 2, ["mails"])
    settle(session, drain(session))  # type: ignore[arg-type]
    session.execute("SELECT pgqueue_limit_pause('mails')")
    send(session, "c", 1, ["mails"])

    assert not drain(session)
    session.execute("SELECT pgqueue_limit_resume('mails')")
    assert taken(drain(session)) == {"a": 1, "b": 1, "c": 1}


@pytest.mark.parametrize(("before", "after", "expected"), [("channel", None, 0), (None, "channel", 4)])
def test_a_limit_may_become_one_for_each_channel_and_back(
    session: Session, before: str | None, after: str | None, expected: int
) -> None:
    limit_set(session, "mails", max_concurrency=2, per=before)
    for name in ("a", "b", "c"):
        send(session, name, 4, ["mails"])
    held = drain(session)

    limit_set(session, "mails", per=after)

    assert len(held) == (6 if before else 2)
    assert len(drain(session)) == expected
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 2") == 6
    settle(session, held)  # type: ignore[arg-type]
    assert len(drain(session)) == 2


def test_a_dropped_limit_lets_all_channels_go_on(session: Session) -> None:
    limit_set(session, "mails", max_concurrency=1, per="channel")
    for name in ("a", "b"):
        send(session, name, 3, ["mails"])
    assert len(drain(session)) == 2

    session.execute("SELECT pgqueue_limit_drop('mails')")

    assert len(drain(session)) == 4
    assert [one(session, f"SELECT count(*) FROM pgqueue_{name}") for name in ("limit", "place", "meter")] == [0, 0, 0]


def test_handlers_that_get_the_limit_bring_what_runs(session: Session) -> None:
    limit_set(session, "mails", max_concurrency=2, per="channel", handlers=["mail.send"])
    enqueue_for(session, "mail.send", "a")
    for name in ("a", "b"):
        enqueue_for(session, "mail.remind", name)
    held = drain(session)
    assert len(held) == 3

    limit_set(session, "mails", handlers=["mail.send", "mail.remind"])
    for name in ("a", "b"):
        for handler in ["mail.send", "mail.remind"]:
            enqueue_for(session, handler, name)

    assert taken(drain(session)) == {"b": 1}
    settle(session, held)  # type: ignore[arg-type]
    assert taken(drain(session)) == {"a": 2, "b": 1}


def test_a_message_holds_its_shared_limit_and_that_of_its_channel(session: Session) -> None:
    limit_set(session, "mails", max_concurrency=2, per="channel")
    limit_set(session, "smtp", max_concurrency=3)
    for name in ("a", "b"):
        send(session, name, 4, ["mails", "smtp"])

    assert sorted(taken(drain(session)).values()) == [1, 2]


def test_a_row_that_holds_nothing_is_pruned_and_made_again(session: Session) -> None:
    limit_set(session, "mails", max_concurrency=1, release_interval="1 second", per="channel")
    for name in ("a", "b"):
        send(session, name, 1, ["mails"])
    held = drain(session)
    settle(session, [lease for lease in held if lease.channel == "a"])  # type: ignore[attr-defined]
    session.execute("UPDATE pgqueue_limit SET created_at = created_at - interval '2 hours'")
    session.execute("UPDATE pgqueue_meter SET filled_at = filled_at - interval '2 hours'")

    session.execute("SELECT pgqueue_prune_limits()")

    assert one(session, ROWS) == 1, "that of b holds the place of its message"
    send(session, "a", 2, ["mails"])
    send(session, "b", 2, ["mails"])
    assert taken(drain(session)) == {"a": 1}


def test_it_holds_for_messages_of_each_origin(session: Session) -> None:
    limit_set(session, "mails", max_concurrency=1, per="channel", handlers=["mail.send"])
    limit_set(session, "own", max_concurrency=1, per="channel")
    session.execute(
        "SELECT pgqueue_enqueue_many(array_fill('work'::text, '{4}'), array_fill('{}'::jsonb, '{4}'),"
        " '{a,a,b,b}', p_limits => array_fill('[\"own\"]'::jsonb, '{4}'))"
    )
    session.execute(
        "INSERT INTO pgqueue_message (channel_id, handler)"
        " SELECT c.id, 'mail.send' FROM pgqueue_channel AS c, generate_series(1, 2) WHERE c.name = 'c'"
    )
    assert taken(drain(session)) == {"a": 1, "b": 1, "c": 1}


def test_explanations_say_what_is_taken_in_the_channel_of_the_message(session: Session) -> None:
    limit_set(session, "mails", max_concurrency=1, per="channel")
    for name in ("a", "b"):
        send(session, name, 2, ["mails"])
    assert len(drain(session)) == 2
    waiting = one(
        session,
        "SELECT m.id FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id"
        " WHERE c.name = 'b' AND m.status = 3",
    )
    full = "The shared limit mails of channel default/b has no room: 1 of 1 places are taken, held by default/b (1)."

    reasons = dict(session.execute("SELECT code, sentence FROM pgqueue_explain_message(%s)", [waiting]).fetchall())
    of_channel = dict(session.execute("SELECT code, sentence FROM pgqueue_explain_channel('default', 'b')").fetchall())

    assert reasons["shared_limit_full"] == of_channel["shared_limit_full"] == full
    assert "the shared limit mails of channel default/b: 1" in of_channel["waits_for_limit"]
    facts = "SELECT facts ->> 'limit' FROM pgqueue_explain_message(%s) WHERE code LIKE '%%limit%%'"
    assert set(column(session, facts, waiting)) == {"mails"}
    session.execute("SELECT pgqueue_limit_pause('mails', 'no mails today')")
    paused = "SELECT sentence FROM pgqueue_explain_message(%s) WHERE code = 'shared_limit_paused'"
    assert "no mails today" in one(session, paused, waiting)


def test_health_shows_one_row_and_all_that_waits(session: Session) -> None:
    limit_set(session, "mails", max_concurrency=1, per="channel")
    limit_set(session, "idle", max_concurrency=5, per="channel")
    for name in ("a", "b", "c"):
        send(session, name, 3, ["mails"])
    assert len(drain(session)) == 3

    rows = session.execute("SELECT name, places, max_concurrency, tokens, waiting, why FROM pgqueue_limit_health()")

    assert rows.fetchall() == [("idle", None, 5, None, 0, None), ("mails", None, 1, None, 6, "full")]


@pytest.mark.parametrize("gone", ["pgqueue_queue_drop('default', true)", "pgqueue_channel_release('default', 'a')"])
def test_rows_of_channels_that_are_gone_are_pruned(session: Session, gone: str) -> None:
    limit_set(session, "mails", max_concurrency=1, per="channel")
    send(session, "a", 1, ["mails"])
    settle(session, drain(session))  # type: ignore[arg-type]
    session.execute(f"SELECT {gone}")
    session.execute("SELECT pgqueue_remove_released()")
    session.execute("SELECT pgqueue_remove_released()")
    session.execute("UPDATE pgqueue_limit SET created_at = created_at - interval '2 hours'")

    session.execute("SELECT pgqueue_prune_limits()")

    assert column(session, "SELECT name FROM pgqueue_limit") == ["mails"]


def test_the_name_of_a_row_is_no_name_of_a_limit(session: Session) -> None:
    limit = limit_set(session, "mails", max_concurrency=1, per="channel")
    send(session, "a", 1, ["mails"])
    assert len(drain(session)) == 1
    [name] = column(session, "SELECT name FROM pgqueue_limit WHERE parent_id = %s", limit)

    for call in ("limit_set(%s, '{}')", "limit_pause(%s)", "enqueue('work', '{}', 'a', p_limits => ARRAY[%s])"):
        assert one(session, f"SELECT refusal ->> 'sqlstate' FROM pgqueue_{call}", name) == "PGQ07"
    assert one(session, "SELECT pgqueue_limit_drop(%s)", name) == "not_found"
    assert one(session, "SELECT refusal ->> 'sqlstate' FROM pgqueue_limit_set('x', '{\"per\": \"queue\"}')") == "PGQ07"
