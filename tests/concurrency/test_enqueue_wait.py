"""An enqueue waits for an open transaction that fills the same channel, or has enqueued the same dedupe key, but not
for ever; then it says busy."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from django.db import connection, transaction

from django_pgqueue import enqueue, enqueue_many
from django_pgqueue.delivery import NewMessage
from django_pgqueue.exceptions import ChannelBusy
from tests.support.sessions import Connect, Session, one, until_it_waits, wait_for_lock
from tests.support.verbs import enqueue as enqueue_in
from tests.support.verbs import make_channel

INSERT = "INSERT INTO pgqueue_message (channel_id, handler) SELECT id, 'h' FROM pgqueue_channel WHERE name = 'small'"


@pytest.fixture
def filler(session: Session, business: Session) -> Session:
    """An open transaction that has enqueued to the channel and does not end."""
    make_channel(session, "small", max_size=10)
    make_channel(session, "free")
    enqueue_in(session, "small")
    enqueue_in(business, "small")
    return business


def test_a_busy_channel_is_an_outcome_and_the_writes_around_it_commit(filler: Session, connect: Connect) -> None:
    with connect(options="-c lock_timeout=50s") as waiting:
        enqueue_in(waiting, "free")
        row = waiting.execute(
            "SELECT outcome, refusal ->> 'message' FROM pgqueue_enqueue('h', p_channel => 'small', p_wait => '50 ms')"
        ).fetchone()
        assert row[0] == "busy"
        assert 'channel "small" of queue "default"' in row[1]
        assert one(waiting, "SHOW lock_timeout") == "50s"
        enqueue_in(waiting, "free")
        waiting.commit()
    assert one(filler, "SELECT count(*) FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id "
               "WHERE c.name = 'free'") == 2  # fmt: skip


def test_the_setting_of_the_session_is_for_inserts_too(filler: Session, connect: Connect) -> None:
    waiting = connect(autocommit=True)
    waiting.execute("SET pgqueue.enqueue_wait = '50 ms'")
    assert one(waiting, "SELECT outcome FROM pgqueue_enqueue('h', p_channel => 'small')") == "busy"
    with pytest.raises(psycopg.Error, match="is busy") as raised:
        waiting.execute(INSERT)
    assert raised.value.sqlstate == "PGQ06"


def test_without_a_setting_it_waits_two_seconds(filler: Session, connect: Connect) -> None:
    waiting = connect(autocommit=True, options="-c lock_timeout=60s")
    began_at = time.monotonic()
    assert one(waiting, "SELECT outcome FROM pgqueue_enqueue('h', p_channel => 'small')") == "busy"
    assert time.monotonic() - began_at >= 0.9  # a deadlock check, after a second, does not end the wait


def test_many_messages_and_a_redrive_wait_no_longer(filler: Session, session: Session) -> None:
    for call in (
        "pgqueue_enqueue_many('{h,h}', NULL, '{free,small}', p_wait => '1 ms')",
        "pgqueue_enqueue_many('{h}', NULL, '{small}', p_wait => '1 ms', p_partial => true)",
    ):
        assert "busy" in [row[0] for row in session.execute(f"SELECT outcome FROM {call}").fetchall()]
    lease = session.execute("SELECT id, token FROM pgqueue_dequeue()").fetchone()
    session.execute("SELECT pgqueue_dead_letter(ARRAY[%s], ARRAY[%s], ARRAY['no'])", lease)
    assert one(session, "SELECT outcome FROM pgqueue_redrive(ARRAY[%s], p_wait => '1 ms')", lease[0]) == "busy"


def test_a_call_that_waits_behind_others_that_wait_does_not_wait_for_longer(
    filler: Session, session: Session, connect: Connect
) -> None:
    """A row is waited for by two locks, the place behind those that wait and then the row: lock_timeout bounds each."""
    first, second = (connect(autocommit=True, options="-c lock_timeout=60s") for _ in range(2))
    ask = "SELECT outcome FROM pgqueue_enqueue('h', p_channel => 'small', p_wait => %s)"
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(one, first, ask, "3 s")
        wait_for_lock(session, first)
        began_at = time.monotonic()
        assert one(second, ask, "3.2 s") == "busy"
        assert 3 < time.monotonic() - began_at < 5
        assert call.result(60) == "busy"


def test_a_statement_for_many_channels_waits_no_longer_than_for_one(filler: Session, connect: Connect) -> None:
    waiting = connect(autocommit=True, options="-c lock_timeout=60s")
    names = ["small", *"abcd"]
    for name in names[1:]:
        make_channel(waiting, name, max_size=10)
        enqueue_in(waiting, name)
        enqueue_in(filler, name)
    call = (
        "SELECT outcome FROM pgqueue_enqueue_many("
        "array_fill('h'::text, ARRAY[5]), NULL, %s, p_wait => '0.5 s', p_partial => true)"
    )
    for _ in range(2):
        began_at = time.monotonic()
        assert [row[0] for row in waiting.execute(call, [names])] == ["busy"] * 5
        assert 0.5 <= time.monotonic() - began_at < 2


@pytest.mark.django_db(transaction=True)
def test_the_setting_of_the_project_bounds_the_wait_of_python(filler: Session, session: Session, settings) -> None:
    settings.DJANGO_PGQUEUE = {"ENQUEUE_WAIT": timedelta(milliseconds=20)}
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '60s'")
        assert enqueue("h", channel="free").created
        with pytest.raises(ChannelBusy):
            enqueue("h", channel="small")
        assert enqueue("h", channel="small", on_refused="return").outcome == "busy"
        [answer] = enqueue_many([NewMessage(handler="h", channel="small")], on_refused="return")
        assert answer.outcome == "busy"
        assert enqueue("h", channel="free").created


def test_a_call_that_waits_gets_the_room_that_a_rollback_leaves(
    filler: Session, session: Session, connect: Connect
) -> None:
    waiting = connect(autocommit=True, options="-c lock_timeout=60s")
    ask = "SELECT outcome FROM pgqueue_enqueue('h', p_channel => 'small', p_wait => '60 s')"
    assert until_it_waits(session, waiting, lambda: one(waiting, ask), filler.rollback) == "created"


@pytest.fixture
def claimer(session: Session, business: Session) -> Session:
    """An open transaction that has enqueued the dedupe key k to the channel default, and does not end."""
    make_channel(session, "free")
    enqueue_in(business, dedupe_key="k")
    return business


def test_a_key_of_an_open_transaction_is_busy_and_the_writes_around_it_commit(
    claimer: Session, connect: Connect
) -> None:
    with connect(options="-c lock_timeout=50s") as waiting:
        enqueue_in(waiting, "free")
        ask = "SELECT outcome, refusal ->> 'message' FROM pgqueue_enqueue('h', p_dedupe_key => 'k', p_wait => '50 ms')"
        outcome, message = waiting.execute(ask).fetchone()
        assert outcome == "busy"
        assert message == (
            'channel "default" of queue "default" is busy: another transaction holds the channel or the dedupe key'
        )
        assert one(waiting, "SHOW lock_timeout") == "50s"
        assert enqueue_in(waiting, dedupe_key="another key")
        waiting.commit()
        claimer.commit()
        assert waiting.execute(ask).fetchone() == ("duplicate", None)


def test_a_key_is_free_again_when_the_transaction_that_brought_it_is_rolled_back(
    claimer: Session, session: Session, connect: Connect
) -> None:
    waiting = connect(autocommit=True, options="-c lock_timeout=60s")
    ask = "SELECT outcome FROM pgqueue_enqueue('h', p_dedupe_key => 'k', p_wait => '60 s')"
    assert until_it_waits(session, waiting, lambda: one(waiting, ask), claimer.rollback) == "created"


def test_one_key_of_many_that_is_busy_withholds_the_others_or_leaves_them_alone(
    claimer: Session, connect: Connect
) -> None:
    waiting = connect(autocommit=True, options="-c lock_timeout=60s")
    ask = (
        "SELECT outcome FROM pgqueue_enqueue_many(ARRAY['h', 'h', 'h', 'h', 'h'], NULL, "
        "p_dedupe_keys => ARRAY['a', 'k', 'a', NULL, 'k'], p_partial => %s, p_wait => '0.5 s')"
    )
    all_or_none = [row[0] for row in waiting.execute(ask, [False]).fetchall()]
    assert all_or_none == ["withheld", "busy", "withheld", "withheld", "withheld"]
    assert one(waiting, "SELECT count(*) FROM pgqueue_message") == 0
    began_at = time.monotonic()
    each = [row[0] for row in waiting.execute(ask, [True]).fetchall()]
    assert each == ["created", "busy", "duplicate", "created", "busy"]
    assert 0.5 <= time.monotonic() - began_at < 2
    assert one(waiting, "SHOW lock_timeout") == "1min"


def test_two_transactions_that_bring_two_keys_in_opposite_order_do_not_deadlock(
    claimer: Session, session: Session, connect: Connect
) -> None:
    other = connect()
    ask = "SELECT outcome FROM pgqueue_enqueue('h', p_dedupe_key => %s, p_wait => %s)"
    assert one(other, ask, "l", "60 s") == "created"
    claimer.execute("SET LOCAL lock_timeout = '60s'")
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(one, claimer, ask, "l", "60 s")
        wait_for_lock(session, claimer)
        # Longer than deadlock_timeout.
        outcomes = [one(other, ask, "k", "3 s")]
        other.commit()
        outcomes.append(call.result(60))
    claimer.commit()
    assert outcomes[0] == "busy" or outcomes[1] == "busy"


def test_a_message_that_a_full_channel_would_drop_stays_when_the_key_is_busy(
    session: Session, business: Session, connect: Connect
) -> None:
    make_channel(session, "small")
    enqueue_in(session, "small")
    enqueue_in(business, "small", dedupe_key="k")
    make_channel(connect(autocommit=True), "small", max_size=1, full_policy="drop_oldest")
    waiting = connect(autocommit=True)
    ask = (
        "SELECT outcome, dropped_ids FROM pgqueue_enqueue('h', p_channel => 'small', p_dedupe_key => 'k', "
        "p_wait => '10 ms')"
    )
    assert waiting.execute(ask).fetchone() == ("busy", None)
    assert one(waiting, "SELECT count(*) FROM pgqueue_message") == 1
