"""A lease that was lost, or that the caller never held, changes nothing, whichever verb is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from django_pgqueue import (
    cancel,
    channel_purge,
    complete,
    dead_letter,
    defer,
    enqueue,
    enqueue_many,
    heartbeat,
    pop,
    retry,
    sweep,
)
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import LeaseLost, PartitionMissing
from tests.support.cases import cases
from tests.support.messages import lease_messages, places
from tests.support.moments import expire
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db

Verb = Callable[..., Iterable[int]]
VERBS: dict[str, Verb] = {
    "complete": complete,
    "defer": lambda leases, **more: defer(leases, state="changed", **more),
    "retry": lambda leases, **more: retry(leases, errors=[{"type": "E"}] * len(leases), **more),
    "dead_letter": lambda leases, **more: dead_letter(leases, reason="refused", **more),
    "heartbeat": heartbeat,
}


def rows() -> list[Any]:
    return sql("SELECT to_jsonb(m) FROM pgqueue_message AS m ORDER BY id")


def one_of_two_is_lost() -> tuple[Delivery, Delivery]:
    kept, lost = lease_messages(2)
    expire(lost)
    sweep()
    return kept, lost


@cases("verb", VERBS)
def test_a_lost_lease_is_named_and_nothing_is_changed(verb: str) -> None:
    kept, lost = one_of_two_is_lost()
    before = rows()
    with refused(LeaseLost, str(lost.id)) as raised:
        VERBS[verb]([kept, lost])
    assert raised.value.ids == (lost.id,)
    assert "roll back" in raised.value.hint
    assert rows() == before


@cases("verb", VERBS)
def test_lost_leases_can_be_left_out(verb: str) -> None:
    kept, lost = one_of_two_is_lost()
    [_, before] = rows()
    assert set(VERBS[verb]([kept, lost], skip_lost=True)) == {kept.id}
    assert before in rows()
    assert set(VERBS[verb]([lost], skip_lost=True)) == set()


@cases("verb", VERBS)
def test_a_token_that_is_forged_or_of_another_message_changes_nothing(verb: str) -> None:
    one, two = lease_messages()[0], lease_messages()[0]
    before = rows()
    for token in (None, uuid4(), two.token):
        with refused(LeaseLost) as raised:
            VERBS[verb]([replace(one, token=token)])
        assert raised.value.ids == (one.id,)
        assert set(VERBS[verb]([replace(one, token=token)], skip_lost=True)) == set()
    assert rows() == before


@cases("verb", [*VERBS.values(), cancel, enqueue_many])
def test_a_call_for_no_messages_does_nothing(verb: Verb) -> None:
    assert len(list(verb([]))) == 0


@cases("verb", [lambda: cancel(enqueue("h").id), pop, lambda: channel_purge(channel="default")])
def test_without_a_partition_for_today_nothing_is_lost(verb: Callable[[], object]) -> None:
    sent = enqueue("h")
    day = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD')"
    sql(f"DROP TABLE pgqueue_archived_message_{sql(day)[0][0]}")
    before = rows()
    with refused(PartitionMissing):
        verb()
    assert places(sent.id) == ["live"]
    assert [row for row in rows() if row in before] == before
