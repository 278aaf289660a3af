"""Rows of models, times and numbers as payloads of handlers; tests/tasks/test_typed.py has those of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NotRequired, TypedDict
from uuid import UUID

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.connection import ConnectionDoesNotExist

from django_pgqueue import Delivery, NewMessage, enqueue, enqueue_many, handler
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import from_json, to_json
from django_pgqueue.models import DeadLetter, Message
from django_pgqueue.payloads import Mismatch, converter
from django_pgqueue.testing import drain, run_handler
from tests.support.cases import cases

pytestmark = pytest.mark.usefixtures("handlers_restored")
seen: list[Any] = []


@dataclass
class Welcome:
    group: Group
    at: datetime
    wait: timedelta = timedelta(0)
    other: Group | None = None


class Many(TypedDict):
    groups: list[Group]
    note: NotRequired[str]


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()


@cases(
    ("kind", "value"),
    [
        (datetime, datetime(2026, 3, 29, 2, 30, 0, 1, tzinfo=UTC)),
        (datetime, datetime(2026, 3, 29, 2, 30, 59, 999_999, tzinfo=timezone(timedelta(hours=-9, minutes=-30)))),
        (datetime, datetime(2026, 3, 29, 2, 30, 0, 123)),  # noqa: DTZ001  (a naive one stays naive)
        (date, date(9999, 12, 31)),
        (time, time(23, 59, 59, 999_999)),
        (timedelta, timedelta(days=999_999_999, hours=23, minutes=59, seconds=59, microseconds=999_999)),
        (timedelta, -timedelta(days=3, microseconds=1)),
        (timedelta, timedelta(0)),
        (Decimal, Decimal("0.10000000000000000000000000000000000000000000001")),
        (Decimal, Decimal("-0.00")),
        (UUID, UUID(int=2**128 - 1)),
        (float, 0.1 + 0.2),
        (int, 2**70),
    ],
)
def test_a_value_comes_back_as_it_was(kind: Any, value: Any):
    back = converter(kind)(from_json(to_json(value, "x")), "x")
    assert (repr(back).replace("datetime.timezone.utc", "UTC"), type(back)) == (
        repr(value).replace("datetime.timezone.utc", "UTC"),
        type(value),
    )


@cases("text", ["5", "1 00:00:00", "P1Y", "", "-"])
def test_a_text_that_is_no_duration_does_not_fit(text: str):
    with pytest.raises(Mismatch, match=r"^x is not a duration in ISO 8601$"):
        converter(timedelta)(text, "x")


@pytest.mark.django_db
def test_a_row_is_stored_as_a_reference_and_fetched_when_the_handler_starts():
    @handler("t.welcome")
    def take(delivery: Delivery[Welcome]):
        seen.append(delivery.payload)

    group = Group.objects.create(name="old")
    at = datetime(2026, 5, 1, tzinfo=UTC)
    take.enqueue(Welcome(group, at, timedelta(minutes=5)))
    assert Message.objects.get().payload["group"] == {"model": "auth.group", "pk": group.pk, "using": "default"}
    Group.objects.update(name="new")
    drain()
    assert seen == [Welcome(group, at, timedelta(minutes=5))]
    assert seen[0].group.name == "new"
    assert seen[0].group._state.db == "default"


@pytest.mark.django_db
@pytest.mark.parametrize("batch", [None, 10])
def test_a_row_that_is_gone_is_a_dead_letter_at_once(batch: int | None):
    def take(argument):
        seen.append(argument)

    one = Delivery[Group]
    take.__annotations__["argument"] = list[one] if batch else one
    handler("t.gone", batch=batch, max_attempts=5)(take)
    groups = [Group.objects.create(name=name) for name in ("a", "b")]
    enqueue_many(NewMessage(handler="t.gone", payload=group) for group in groups)
    Group.objects.filter(name="a").delete()
    drain()
    [letter] = DeadLetter.objects.all()
    assert (letter.reason, letter.attempts) == ("gone", 1)
    assert letter.details == {"problem": "payload: the auth.Group is not in the database 'default'"}
    assert [d.payload for each in seen for d in (each if batch else [each])] == [groups[1]]


@pytest.mark.django_db
def test_a_batch_fetches_its_rows_with_one_query_for_each_model():
    @handler("t.many", batch=10)
    def take(deliveries: list[Delivery[Welcome]]):
        seen.extend(delivery.payload for delivery in deliveries)

    groups = [Group.objects.create(name=name) for name in "abc"]
    at = datetime(2026, 5, 1, tzinfo=UTC)
    for group in groups:
        take.enqueue(Welcome(group, at, other=groups[0]))
    with CaptureQueriesContext(connection) as queries:
        drain()
    assert len([query for query in queries if '"auth_group"' in query["sql"]]) == 1
    assert [each.group.name for each in seen] == ["a", "b", "c"]
    assert {id(each.other) for each in seen} == {id(seen[0].group)}


@pytest.mark.django_db
def test_one_message_with_many_rows_fetches_them_with_one_query():
    groups = [Group.objects.create(name=name) for name in "abc"]

    @handler("t.list")
    def take(delivery: Delivery[Many]):
        seen.append(delivery.payload["groups"])

    take.enqueue({"groups": groups})
    with CaptureQueriesContext(connection) as queries:
        drain()
    assert len([query for query in queries if '"auth_group"' in query["sql"]]) == 1
    assert seen == [groups]


@pytest.mark.django_db
def test_a_reference_that_is_wrong_fails_alone_and_not_the_rows_of_its_batch():
    @handler("t.many", batch=10, max_attempts=1)
    def take(deliveries: list[Delivery[Group]]):
        seen.extend(delivery.payload.name for delivery in deliveries)

    for group in (Group.objects.create(name="a"), Group.objects.create(name="b")):
        take.enqueue(group)
    for wrong in ({"model": "auth.group", "pk": "x", "using": "default"}, {"model": "auth.user", "pk": 1, "using": ""}):
        enqueue("t.many", wrong)
    drain()
    assert seen == ["a", "b"]
    assert [letter.reason for letter in DeadLetter.objects.all()] == ["invalid_payload"] * 2


@pytest.mark.django_db(transaction=True)
def test_an_async_handler_gets_its_rows_too():
    @handler("t.async")
    async def take(delivery: Delivery[Many]):
        seen.append(delivery.payload)

    group = Group.objects.create(name="a")
    run_handler(take, {"groups": [group]})
    assert seen == [{"groups": [group]}]


@pytest.mark.django_db
def test_the_database_of_the_row_is_kept():
    group = Group.objects.create(name="a")
    group._state.db = "replica"
    stored = from_json(to_json(group, "payload", rows=True))
    with pytest.raises(ConnectionDoesNotExist, match="replica"):
        converter(Group)(stored, "payload")


@cases(
    ("payload", "problem"),
    [
        ({"model": "auth.permission", "pk": 1, "using": "default"}, "is a reference to a auth.Permission, not to a G"),
        ({"model": "auth.nothing", "pk": 1, "using": "default"}, "names a model that is not installed"),
        ({"model": ["x"], "pk": 1, "using": "default"}, "names a model that is not installed"),
        ({"model": "auth.group", "pk": "x", "using": "default"}, "has no primary key of auth.Group"),
        ({"model": "auth.group", "pk": {}, "using": "default"}, "has no primary key of auth.Group"),
        ({"pk": 1}, "is an object, not a reference to a Group"),
        (7, "is a whole number, not a reference to a Group"),
    ],
)
@pytest.mark.django_db
def test_a_payload_names_only_rows_of_the_model_in_the_annotation(payload: Any, problem: str):
    with CaptureQueriesContext(connection) as queries, pytest.raises(Mismatch, match=f"^payload {problem}"):
        converter(Group)(payload, "payload")
    assert len(queries) == 0


@pytest.mark.django_db
def test_a_row_is_refused_without_a_type_that_takes_it_and_the_error_says_where():
    @handler("t.untyped")
    def take(delivery: Delivery): ...

    @handler("t.typed")
    def take_typed(delivery: Delivery[Welcome]): ...

    group = Group.objects.create(name="a")
    for name in ("t.untyped", "t.unknown"):
        with pytest.raises(InvalidMessage, match=r"payload is not JSON, at \.lines\[1\]: .*Group.*primary key"):
            enqueue(name, {"lines": [1, group]})
    with pytest.raises(InvalidMessage, match=r"payload is not JSON, at \.other: this auth.Group is not saved"):
        take_typed.enqueue(Welcome(group, datetime.now(UTC), other=Group(name="new")))
    assert not Message.objects.exists()
