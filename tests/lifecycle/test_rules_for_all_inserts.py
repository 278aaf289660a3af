"""Each way to enqueue has the same rules: what the verbs refuse, no INSERT gets past, and the other way round."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from django_pgqueue import dequeue, retry
from django_pgqueue.models import Channel, Message
from tests.support.cases import cases
from tests.support.moments import pass_time
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db

COLUMNS = {
    "handler": "text",
    "payload": "jsonb",
    "headers": "jsonb",
    "priority": "integer",
    "dequeue_at": "timestamptz",
    "max_attempts": "integer",
    "backoff": "interval",
    "backoff_factor": "float8",
    "backoff_longest": "interval",
    "dedupe_key": "text",
    "cost": "integer",
    "order_key": "text",
}
VERB = f"""
SELECT pgqueue_raise(refusal)
FROM pgqueue_enqueue({", ".join(f"p_{name} => %({name})s::{kind}" for name, kind in COLUMNS.items())})
"""
MANY = """
SELECT pgqueue_raise(refusal) FROM pgqueue_enqueue_many(
    ARRAY[%(handler)s::text], ARRAY[%(payload)s::jsonb], p_headers => ARRAY[%(headers)s::jsonb],
    p_priorities => ARRAY[%(priority)s::integer], p_dequeue_ats => ARRAY[%(dequeue_at)s::timestamptz],
    p_max_attempts => ARRAY[%(max_attempts)s::integer], p_backoffs => ARRAY[%(backoff)s::interval],
    p_backoff_factors => ARRAY[%(backoff_factor)s::float8], p_backoff_longests => ARRAY[%(backoff_longest)s::interval],
    p_costs => ARRAY[%(cost)s::integer], p_order_keys => ARRAY[%(order_key)s::text])
"""
AT = "dequeue_at"
GIVEN = {AT: f"coalesce(%({AT})s::timestamptz, clock_timestamp())"}
INSERT = f"""
INSERT INTO pgqueue_message (channel_id, {", ".join(COLUMNS)})
SELECT c.id, {", ".join(GIVEN.get(name, f"%({name})s::{kind}") for name, kind in COLUMNS.items())}
FROM pgqueue_channel AS c WHERE c.name = 'default'
"""

INTERVALS = [None, "0", "1 s", "-1 us", "365000 days", "365000 days 1 us", "12166 months", "12167 months", "-1 month"]
VALUES: dict[str, list[Any]] = {
    "handler": ["h", "", "é" * 200, "é" * 201, " ", None],
    "payload": ["{}", "null", "[1]"],
    "headers": [None, "{}", '{"a": 1}', "null", "[]", "[1]", '"text"', "5", "true"],
    "priority": [0, 1, -32767, 32767, -32768, 32768, 2**31 - 1, None],
    "dequeue_at": [
        None, "2026-01-01", "infinity", "-infinity", "4000-01-01 BC", "200000-01-01",
        "0002-01-01 00:00+00", "9998-12-31 23:59:59.999999+00", "0001-12-31 23:59:59.999999+00", "9999-01-01 00:00+00",
    ],
    "max_attempts": [1, 5, 0, -5, 2**31 - 1, None],
    "backoff": [*INTERVALS, "170000000 years"],
    "backoff_factor": [None, 1.0, 1000.0, 0.999, 1000.5, float("nan"), float("inf"), -1.0],
    "backoff_longest": [*INTERVALS, "170000000 years"],
    "dedupe_key": [None, "", "k", "k" * 200, "k" * 201],
    "cost": [None, 1, 1200, 2**31 - 1, 0, -1],
    "order_key": [None, "k", "", " ", "k" * 200, "k" * 201],
}  # fmt: skip
rows = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})
PLAIN: dict[str, Any] = {
    "handler": "h", "payload": "{}", "headers": None, "priority": 0, "dequeue_at": None, "max_attempts": 5,
    "backoff": None, "backoff_factor": None, "backoff_longest": None, "dedupe_key": None,
    "cost": None, "order_key": None,
}  # fmt: skip


def answer(statement: str, row: dict[str, Any]) -> str | None:
    """The SQLSTATE with which the statement is refused; None: it is taken. Nothing of it stays."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, row)
            transaction.set_rollback(True)
    except DatabaseError as error:
        return getattr(error.__cause__, "sqlstate", None)
    return None


@given(changed=st.lists(st.sampled_from(sorted(COLUMNS)), unique=True, max_size=2), drawn=rows)
@example(changed=["backoff_factor"], drawn=PLAIN | {"backoff_factor": float("nan")})
@example(changed=["max_attempts"], drawn=PLAIN | {"max_attempts": 0})
@example(changed=["priority"], drawn=PLAIN | {"priority": -32768})
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_insert_is_refused_if_and_only_if_the_verb_refuses(changed: list[str], drawn: dict[str, Any]) -> None:
    row = PLAIN | {name: drawn[name] for name in changed}
    by_verb, by_insert = answer(VERB, row), answer(INSERT, row)
    assert (by_verb is None) == (by_insert is None), (row, by_verb, by_insert)
    assert by_verb in (None, "PGQ07")
    if None not in (row["priority"], row["max_attempts"]) and row["dedupe_key"] is None:
        assert answer(MANY, row) == by_verb


@cases("name", sorted(COLUMNS))
def test_each_value_of_a_column_alone(name: str) -> None:
    """Chance need not find them: each value of the strategy, in a row that is otherwise plain."""
    found = {None: 0, "refused": 0}
    for drawn in VALUES[name]:
        row = PLAIN | {name: drawn}
        by_verb, by_insert = answer(VERB, row), answer(INSERT, row)
        assert (by_verb is None) == (by_insert is None), (row, by_verb, by_insert)
        found[by_verb and "refused"] += 1
    assert found[None]
    assert found["refused"] or name == "payload"


def test_the_orm_and_copy_have_the_rules_too() -> None:
    channel = Channel.objects.get()
    with refused(DatabaseError, "backoff_factor is not between 1 and 1000"):
        Message.objects.create(channel=channel, handler="h", backoff_factor=float("nan"))
    with refused(DatabaseError, "backoff is not between 0"):
        Message.objects.bulk_create([Message(channel=channel, handler="h", backoff=timedelta(seconds=-1))])
    with refused(DatabaseError, "the headers are not a JSON object"):
        Message.objects.create(channel=channel, handler="h", headers=[1])
    with refused(psycopg.Error, "the handler has no name"):
        copy_in(channel.pk, "")
    assert not Message.objects.exists()


def copy_in(*row: Any) -> None:
    with connection.cursor() as cursor, cursor.copy("COPY pgqueue_message (channel_id, handler) FROM STDIN") as copy:
        copy.write_row(row)


@pytest.fixture
def older_row() -> None:
    """A message as there may be from before these rules."""
    sql("INSERT INTO pgqueue_message (channel_id, handler) SELECT id, 'h' FROM pgqueue_channel")
    endless = "170000000 years"
    sql("UPDATE pgqueue_message SET backoff = %s, backoff_factor = 'NaN', backoff_longest = %s", endless, endless)


@pytest.mark.parametrize("how", ["retry", "retry by hand", "sweep"])
def test_a_pause_that_no_time_can_have_is_capped_and_the_lease_ends(older_row: None, how: str) -> None:
    sql("UPDATE pgqueue_message SET backoff_factor = 1")
    [delivery] = dequeue()
    match how:
        case "retry":
            assert retry(delivery, errors=[{}]) == {delivery.id: "retried"}
        case "retry by hand":
            given = "SELECT outcome FROM pgqueue_retry(%s, %s, ARRAY['{}'::jsonb], ARRAY['170000000 years'::interval])"
            assert sql(given, [delivery.id], [delivery.token]) == [("retried",)]
        case "sweep":
            pass_time(hours=1)
            assert sql("SELECT retried FROM pgqueue_sweep()") == [(1,)]
    found = sql("SELECT status, lease_token IS NULL, dequeue_at < now() + interval '365001 days' FROM pgqueue_message")
    assert found == [(3, True, True)]
