"""Streams: claims that a crash repeats, one owner at a time, and the limits of channels (C7)."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.concurrency.streams import Claim, archived, claim, claimed, no_streams, open_stream  # noqa: F401  (a fixture)
from tests.support.sessions import Session, one, together, wait_for_lock
from tests.support.verbs import drain, fill, make_channel


def test_a_batch_is_settled_when_the_next_one_is_asked_for(session: Session) -> None:
    fill(session, "default", 5)
    owner = open_stream(session)
    assert claim(session, owner, 0, 3) == Claim(1, 3, 0, 0)
    first = claimed(session)
    assert archived(session) == []
    assert claim(session, owner, 1, 3) == Claim(2, 2, 3, 0)
    assert archived(session) == first
    assert claim(session, owner, 2, 3) == Claim(2, 0, 2, 0)
    assert claim(session, owner, 2, 3) == Claim(2, 0, 0, 0)
    assert len(archived(session)) == 5
    assert claimed(session) == []


def test_a_batch_that_was_not_settled_is_claimed_again_as_it_was(session: Session) -> None:
    fill(session, "default", 5)
    claim(session, open_stream(session), 0, 3)
    before = claimed(session)
    owner = open_stream(session)
    assert claim(session, owner, 0, 5) == Claim(1, 3, 0, 0)
    assert claimed(session) == before
    assert claim(session, owner, 1, 0) == Claim(1, 0, 3, 0), "limit 0 settles, and claims nothing"


def test_a_lease_that_is_lost_is_neither_given_again_nor_settled(session: Session) -> None:
    fill(session, "default", 2)
    owner = open_stream(session)
    claim(session, owner, 0, 2, lease="1 microsecond")
    kept = claimed(session)[1]
    session.execute("UPDATE pgqueue_message SET lease_expires_at = now() + interval '1 hour' WHERE id = %s", [kept])
    session.execute("SELECT pgqueue_sweep()")

    assert claim(session, owner, 0) == Claim(1, 1, 0, 0)
    assert claimed(session) == [kept]
    # The other one comes again, by its retry policy, with the next claim.
    session.execute("UPDATE pgqueue_message SET dequeue_at = now() WHERE status = 3")
    assert claim(session, owner, 1) == Claim(2, 1, 1, 0)
    assert one(session, "SELECT attempts FROM pgqueue_message") == 2


def test_a_message_that_was_processed_under_a_lost_lease_is_counted(session: Session) -> None:
    fill(session, "default", 2)
    owner = open_stream(session)
    claim(session, owner, 0, 2, lease="1 microsecond")
    session.execute("SELECT pgqueue_sweep()")
    # Not yet: they wait for their next attempt.
    session.execute("UPDATE pgqueue_message SET dequeue_at = now() + interval '1 hour' WHERE status = 3")

    assert claim(session, owner, 1) == Claim(1, 0, 0, 2)
    assert archived(session) == []


def test_leases_are_extended_and_lost_ones_are_forgotten(session: Session) -> None:
    fill(session, "default", 3)
    owner = open_stream(session)
    claim(session, owner, 0, 3, lease="1 second")
    session.execute("SELECT pgqueue_cancel(ARRAY[%s]::bigint[])", [claimed(session)[0]])
    gone = claimed(session)[1]
    session.execute("DELETE FROM pgqueue_message WHERE id = %s", [gone])

    answer = session.execute("SELECT * FROM pgqueue_stream_extend('s', %s, '1 hour')", [owner]).fetchone()
    assert answer == (2, 1)
    assert gone not in claimed(session)
    assert one(session, "SELECT bool_and(lease_expires_at > now() + interval '59 minutes') FROM pgqueue_message")


def test_another_query_takes_a_stream_over(session: Session, other: Session) -> None:
    fill(session, "default", 3)
    old = open_stream(session)
    claim(session, old, 0, 2)
    new = open_stream(other)
    for call in (
        lambda: claim(session, old, 1),
        lambda: session.execute("SELECT pgqueue_stream_extend('s', %s)", [old]),
    ):
        with pytest.raises(psycopg.Error, match='another query has taken over stream "s"') as caught:
            call()
        assert caught.value.sqlstate == "PGQ02"
    assert archived(session) == []
    assert claim(other, new, 0) == Claim(1, 2, 0, 0)


def test_a_claim_under_way_ends_before_another_query_takes_over(
    session: Session, other: Session, business: Session
) -> None:
    fill(session, "default", 3)
    owner = open_stream(session)
    claim(business, owner, 0, 2)
    taken = threading.Event()

    def take_over() -> Claim:
        other.execute("SET lock_timeout = '20s'")
        new = open_stream(other)
        taken.set()
        return claim(other, new, 0)

    def end() -> None:
        wait_for_lock(session, other)
        assert not taken.is_set()
        business.commit()

    assert together(take_over, end)[0] == Claim(1, 2, 0, 0)


def test_a_checkpoint_that_is_older_than_the_stream_is_refused(session: Session) -> None:
    fill(session, "default", 3)
    owner = open_stream(session)
    claim(session, owner, 0, 1)
    claim(session, owner, 1, 1)
    with pytest.raises(psycopg.Error, match='stream "s" has settled batch 1, its checkpoint ends at batch 0'):
        claim(session, owner, 0)


def test_a_stream_reads_what_it_was_opened_for(session: Session) -> None:
    make_channel(session, "a")
    open_stream(session)
    with pytest.raises(psycopg.Error, match='reads something else: queue "default", channel \\(all\\)'):
        open_stream(session, channel="a")
    with pytest.raises(psycopg.Error, match='channel "b" does not exist'):
        open_stream(session, "other", channel="b")
    with pytest.raises(psycopg.Error, match='queue "nowhere" does not exist'):
        open_stream(session, "other", "nowhere")
    with pytest.raises(psycopg.Error, match='stream "x" does not exist'):
        session.execute("SELECT pgqueue_stream_release('x')")


def test_a_stream_that_is_released_gives_its_messages_back(session: Session) -> None:
    fill(session, "default", 2500)
    owner = open_stream(session)
    claim(session, owner, 0, 2400)
    assert one(session, "SELECT pgqueue_stream_release('s')") == 2400
    assert one(session, "SELECT count(*) FROM pgqueue_message WHERE status = 1 AND attempts = 0") == 2500
    assert len(drain(session, 100)) == 2500
    with pytest.raises(psycopg.Error, match='stream "s" does not exist'):
        claim(session, owner, 0)
