"""A bulk enqueue converts its messages column by column, to the same values as one message after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import override_settings

from django_pgqueue import NewMessage, handlers
from django_pgqueue.backoff import Exponential
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json, to_json_texts
from django_pgqueue.lifecycle.enqueue import bind, columns_of, parameters
from django_pgqueue.lifecycle.new_messages import Bound
from tests.support.cases import cases
from tests.support.sql import sql

LATER = datetime(2100, 1, 1, tzinfo=UTC)
SEALED = {"$codec": "fernet", "v": 1, "data": "x"}
USUAL: dict[str, list[Any]] = {
    "handler": ["plain", "with.policy", "no.handler"],
    "payload": [None, {}, {"n": 1}, "ü\\", [1.5, None], 0],
    "channel": ["default", "acme", 'a"b\\c,{}', "NULL"],
    "queue": [None, None, "default", "emails"],
    "headers": [None, None, {}, {"trace": "x\x1fy"}],
    "priority": [0, 0, 32_767, -32_767],
    "dequeue_at": [None, LATER],
    "delay": [None, timedelta(hours=1), timedelta(0)],
    "dedupe_key": [None, "", "k", "NULL"],
}
UNUSUAL: dict[str, list[Any]] = {
    "body": [b"", b"x"], "limits": [["x"], []], "cost": [3], "max_attempts": [1, 9], "backoff": [timedelta(1)],
    "queue": [type("Name", (str,), {})("own")],
}  # fmt: skip
WRONG: dict[str, list[Any]] = {
    "handler": ["\0", 5, b"h"], "channel": [None, "\0", "\ud800", ["x"]], "queue": ["", "\0", 5],
    "payload": [{1}, "\0", "\ud800", float("nan"), SEALED], "headers": [[], {"x": "\0"}],
    "priority": [True, 1.0, 40_000],
    "dequeue_at": [datetime(2100, 1, 1), datetime(1, 1, 1, tzinfo=UTC), 5], "delay": [5, timedelta(days=400_000)],  # noqa: DTZ001
    "dedupe_key": ["\0", 5], "body": ["text"], "limits": ["text"], "cost": [0, True], "max_attempts": [0],
    "backoff": [5],
}  # fmt: skip


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    handlers.handler("plain")(lambda delivery: None)
    policy = Exponential(timedelta(seconds=2), 3, timedelta(minutes=1))
    handlers.handler("with.policy", queue="emails", max_attempts=7, backoff=policy)(lambda delivery: None)
    yield
    handlers.unregister("plain")
    handlers.unregister("with.policy")


def some(count: int, seed: int, **fixed: Any) -> list[NewMessage]:
    chosen = random.Random(seed)
    return [NewMessage(**{name: chosen.choice(values) for name, values in USUAL.items()} | fixed) for _ in range(count)]


@cases("count", [1, 2, 50])
@cases("seed", range(10))
def test_columns_have_the_values_of_each_message(count: int, seed: int) -> None:
    messages = some(count, seed)
    columns = columns_of(messages)
    assert columns is not None
    one_by_one = zip(*map(bind, messages), strict=True)
    for name, values in zip(Bound._fields, one_by_one, strict=True):
        assert list(columns.get(name, [None] * count)) == list(values), name


@cases(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_value_that_is_not_allowed_is_left_to_the_message_itself(name: str, value: Any) -> None:
    wrong = NewMessage(**{"handler": "plain", name: value})
    with pytest.raises(InvalidMessage):
        bind(wrong)
    assert columns_of([*some(3, 1), wrong]) is None


@cases(("name", "value"), [(name, value) for name, values in UNUSUAL.items() for value in values])
def test_a_field_that_few_messages_have_is_left_to_the_message_itself(name: str, value: Any) -> None:
    rare = NewMessage(**{"handler": "plain", name: value})
    assert bind(rare)
    assert columns_of([*some(3, 1), rare]) is None


@override_settings(DJANGO_PGQUEUE={"MAX_PAYLOAD": 20})
def test_a_message_that_may_be_too_large_is_left_to_itself() -> None:
    for large in ({"payload": "x" * 19}, {"headers": {"h": "x" * 20}}, {"payload": "x" * 10, "headers": {"h": "12"}}):
        message = NewMessage(handler="plain", **large)
        assert columns_of([message]) is None
        with pytest.raises(InvalidMessage, match="MAX_PAYLOAD"):
            bind(message)


@pytest.mark.django_db
@cases("seed", range(5))
def test_the_server_reads_the_columns_as_they_were(seed: int) -> None:
    messages = some(20, seed)
    columns = columns_of(messages)
    assert columns is not None
    sent = SimpleNamespace(**dict(zip(Bound._fields, parameters(columns), strict=True)))
    for text in ("handler", "channel", "queue"):
        assert sql("SELECT unnest(%s::text[])", getattr(sent, text)) == [(value,) for value in columns[text]]
    keys = sql("SELECT jsonb_array_elements_text(%s::jsonb)", sent.dedupe_key)
    assert keys == [(value,) for value in columns["dedupe_key"]]
    for json in ("payload", "headers"):
        array = "string_to_array(%s, chr(31), '')"
        assert sql(f"SELECT unnest({array})", getattr(sent, json)) == [(value,) for value in columns[json]]
    assert sql("SELECT unnest(%s::integer[])", sent.priority) == [(value,) for value in columns["priority"]]


def test_a_column_of_nothing_but_defaults_is_not_sent() -> None:
    columns = columns_of([NewMessage(handler="plain", payload=1)] * 3)
    assert columns is not None
    sent = {name for name, value in zip(Bound._fields, parameters(columns), strict=True) if value is not None}
    assert sent == {"handler", "payload"}


@cases(
    "values",
    [
        [{"n": 1}, None, "text", [], 1.5, True, ""],
        ["\x1f", ["a", "\x1f", "b"], 'x", "\\u001f", "y'],
        ["ü", "\\u0041", {"ü": "\x7f"}],
        [None, None],
        [7],
    ],
)
def test_values_are_encoded_together_as_each_by_itself(values: list[Any]) -> None:
    assert to_json_texts(values, "payload", 1_000) == [to_json(value, "payload", 1_000) for value in values]


def test_values_are_measured_one_by_one() -> None:
    assert to_json_texts(["x" * 18] * 5, "payload", 20) == [f'"{"x" * 18}"'] * 5
    with pytest.raises(InvalidMessage, match="MAX_PAYLOAD"):
        to_json_texts(["x", "x" * 19], "payload", 20)


@pytest.mark.parametrize("wrong", [{1}, "\0", "\ud800", float("nan")], ids=repr)
def test_a_value_that_is_no_json_is_refused_among_others(wrong: Any) -> None:
    with pytest.raises(InvalidMessage):
        to_json_texts([1, wrong, 2], "payload", 1_000)
