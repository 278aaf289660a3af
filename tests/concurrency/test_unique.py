"""Unique messages beside other transactions: no key is had by two, and nothing that was kept starts too early."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from tests.support.sessions import Connect, Session, one
from tests.support.verbs import dequeue

ASK = "SELECT outcome FROM pgqueue_enqueue_unique(%s, 'work', %s, p_wait => %s)"


def ask(session: Session, payload: Any = 1, *, wait: str = "2 s", key: str = "k", **unique: Any) -> str:
    return one(session, ASK, Jsonb({"key": key, **unique}), Jsonb(payload), wait)


def test_a_second_transaction_waits_for_the_first_and_keeps_its_message(
    session: Session, business: psycopg.Connection[Any]
) -> None:
    assert ask(business) == "created"
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(ask, session)
        assert not waiting.done()
        business.commit()
        assert waiting.result(10) == "duplicate"


def test_or_enqueues_if_the_first_rolls_back(session: Session, business: psycopg.Connection[Any]) -> None:
    assert ask(business) == "created"
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(ask, session)
        business.rollback()
        assert waiting.result(10) == "created"


def test_it_waits_no_longer_than_it_may_and_the_transaction_goes_on(
    connect: Connect, business: psycopg.Connection[Any], session: Session
) -> None:
    ask(business)
    other = connect(autocommit=False)
    other.execute("SET lock_timeout = '7 s'")
    assert ask(other, wait="50 ms") == "busy"
    assert one(other, "SHOW lock_timeout") == "7s"
    assert ask(other, key="another") == "created"
    other.commit()
    business.commit()
    assert ask(session, key="another") == "duplicate"


def test_a_message_that_is_kept_starts_after_the_commit_that_counts_on_it(
    session: Session, other: Session, business: psycopg.Connection[Any]
) -> None:
    assert ask(session, until="leased") == "created"
    assert ask(business, until="leased") == "duplicate"
    assert dequeue(other, 10) == [], "its handler would not see what the open transaction has written"
    business.commit()
    assert len(dequeue(other, 10)) == 1


def test_a_message_that_is_being_taken_is_not_kept(session: Session, business: psycopg.Connection[Any]) -> None:
    ask(session, 1, until="leased", replace=True)
    assert len(dequeue(business)) == 1
    assert ask(session, 2, until="leased", replace=True) == "created", "the first one may have started"
    business.commit()
    assert len(dequeue(session)) == 1


def test_eight_who_ask_at_once_get_one_message(connect: Connect, session: Session) -> None:
    sessions = [connect(autocommit=True) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        for number in range(20):
            answers = [*threads.map(partial(ask, key=str(number), until="leased"), sessions)]
            assert sorted(answers) == ["created"] + ["duplicate"] * 7
