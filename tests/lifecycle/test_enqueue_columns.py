"""A bulk enqueue converts its messages column by column, to the same values as one message after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_pgqueue import NewMessage, channel_set, enqueue, enqueue_many, handlers, limit_set
from django_pgqueue.backoff import Exponential
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Message
from tests.support.cases import cases

pytestmark = pytest.mark.django_db

USUAL: dict[str, list[Any]] = {
    "handler": ["plain", "with.policy", "no.handler"],
    "payload": [None, {}, {"n": 1}, "ü\\", [1.5, None], 0, "\x1f", 'x", "\\u001f', {"ü": "\x7f"}, True],
    "channel": ["default", "acme", 'a"b\\c,{}', "NULL"],
    "queue": [None, None, "default", "emails"],
    "headers": [None, None, {}, {"trace": "x\x1fy"}],
    "priority": [0, 0, 32_767, -32_767],
    "dequeue_at": [None, datetime(2100, 1, 1, tzinfo=UTC)],
}
RARE: dict[str, list[Any]] = {
    "body": [None, b"", b"x"], "limits": [(), ["x"]], "cost": [None, 3], "max_attempts": [None, 1, 9],
    "backoff": [None, timedelta(1)],
}  # fmt: skip
WRONG: dict[str, list[Any]] = {
    "handler": ["\0", 5, b"h"], "channel": [None, "\0", "\ud800", ["x"]], "queue": ["", "\0", 5],
    "payload": [{1}, "\0", "\ud800", float("nan"), {"$codec": "fernet", "v": 1, "data": "x"}, "x" * 999],
    "headers": [[], {"x": "\0"}], "priority": [True, 1.0, 40_000], "dedupe_key": ["\0", 5], "body": ["text"],
    "dequeue_at": [datetime(2100, 1, 1), datetime(1, 1, 1, tzinfo=UTC), 5], "delay": [5, timedelta(days=400_000)],  # noqa: DTZ001
    "limits": ["text"], "cost": [0, True], "max_attempts": [0], "backoff": [5],
}  # fmt: skip
SOON = datetime(2090, 1, 1, tzinfo=UTC)
# What no two messages have in common.
OWN = ("id", "created_at", "seq")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    handlers.handler("plain")(lambda delivery: None)
    policy = Exponential(timedelta(seconds=2), 3, timedelta(minutes=1))
    handlers.handler("with.policy", queue="emails", max_attempts=7, backoff=policy)(lambda delivery: None)
    yield
    handlers.unregister("plain")
    handlers.unregister("with.policy")


def stored(*ids: int | None) -> list[dict[str, Any]]:
    """The rows of these messages, in their order, as the tables have them."""
    names = [field.attname for field in Message._meta.fields if field.name not in OWN]
    rows = {row["id"]: row for row in Message.objects.filter(id__in=ids).values("id", "channel__queue", *names)}
    return [{**rows[each], "id": 0, "dequeue_at": max(rows[each]["dequeue_at"], SOON)} for each in ids]


@cases("count", [1, 2, 40])
@cases("table", [USUAL, USUAL | RARE])
@cases("seed", range(4))
def test_many_are_stored_as_each_by_itself(count: int, table: dict[str, list[Any]], seed: int) -> None:
    limit_set("x")
    for queue in ("default", "emails"):
        for channel in USUAL["channel"]:
            channel_set(queue=queue, channel=channel)
    chosen = random.Random(seed)
    messages = [{name: chosen.choice(values) for name, values in table.items()} for _ in range(count)]
    messages = [{**each, "dedupe_key": chosen.choice([None, f"NULL{n}"])} for n, each in enumerate(messages)]
    alone = [enqueue(**each).id for each in messages]
    expected = stored(*alone)
    Message.objects.all().delete()
    assert stored(*(each.id for each in enqueue_many([NewMessage(**each) for each in messages]))) == expected


@cases(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
@override_settings(DJANGO_PGQUEUE={"MAX_PAYLOAD": 1_000})
def test_one_that_is_wrong_is_refused_among_others(name: str, value: Any) -> None:
    right = NewMessage(handler="plain")
    with pytest.raises(InvalidMessage):
        enqueue_many([right, NewMessage(**{"handler": "plain", name: value}), right])
    assert not Message.objects.exists()
