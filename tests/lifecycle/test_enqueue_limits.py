"""A new message has its shared limits and its cost, however Python enqueues it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_pgqueue import Delivery, Limit, NewMessage, aenqueue, dequeue, enqueue, enqueue_many, handler, limit_set
from django_pgqueue import limits as declarations
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Message, SharedLimit
from tests.support.cases import cases
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _limits(handlers_restored: None) -> Iterator[None]:
    before = dict(declarations._declared)
    for name in ("stripe", "openai"):
        limit_set(name, max_concurrency=1)
    yield
    declarations._declared.clear()
    declarations._declared.update(before)


def limits_of(message: int | None) -> list[str]:
    ids = Message.objects.get(pk=message).limits or []
    names = dict(SharedLimit.objects.values_list("pk", "name"))
    return sorted(names[id_] for id_ in ids)


def test_a_message_has_the_limits_and_the_cost_that_are_given():
    new = enqueue("h", limits=["stripe", "openai", "stripe"], cost=1200)
    assert limits_of(new.id) == ["openai", "stripe"]
    assert Message.objects.get().cost == 1200


def test_a_declared_limit_may_stand_for_its_name():
    stripe = Limit("stripe", max_concurrency=1)
    assert limits_of(enqueue("h", limits=[stripe, "openai"]).id) == ["openai", "stripe"]


def test_async_callers_and_the_handler_give_them_too():
    @handler("charge", limits=["stripe"])
    def charge(delivery: Delivery) -> None: ...

    async def both() -> list[int | None]:
        return [(await aenqueue("h", limits=["openai"], cost=3)).id, (await charge.aenqueue(limits=["openai"])).id]

    first, second = async_to_sync(both)()
    assert limits_of(first) == ["openai"]
    assert Message.objects.get(pk=first).cost == 3
    assert limits_of(second) == ["openai", "stripe"]


def test_the_limits_of_the_handler_are_joined_with_those_of_the_message():
    @handler("charge", limits=["stripe"])
    def charge(delivery: Delivery) -> None: ...

    assert limits_of(charge.enqueue().id) == ["stripe"]
    assert limits_of(enqueue("charge", limits=["stripe", "openai"]).id) == ["openai", "stripe"]
    assert limits_of(enqueue("h").id) == []


def test_each_message_of_many_has_its_own():
    answers = enqueue_many(
        [
            NewMessage(handler="h", limits=["stripe", "openai"], cost=2),
            NewMessage(handler="h"),
            NewMessage(handler="h", limits=["stripe"]),
        ]
    )
    assert [limits_of(answer.id) for answer in answers] == [["openai", "stripe"], [], ["stripe"]]
    assert [Message.objects.get(pk=answer.id).cost for answer in answers] == [2, None, None]
    assert [delivery.id for delivery in dequeue(limit=10)] in (
        [answers[0].id, answers[1].id],
        [answers[1].id, answers[0].id],
        [answers[1].id, answers[2].id],
        [answers[2].id, answers[1].id],
    )


@cases(
    ("given", "text"),
    [
        ({"cost": "5"}, "cost is not an integer but str"),
        ({"cost": 1.5}, "cost is not an integer but float"),
        ({"cost": True}, "cost is not an integer but bool"),
        ({"cost": 0}, "cost is 0"),
        ({"cost": 2**31}, "cost is 2147483648"),
        ({"limits": "stripe"}, "limits are not a list but str"),
        ({"limits": 5}, "limits are not a list but int"),
        ({"limits": [5]}, "the name of a limit is not a str but int"),
        ({"limits": [""]}, "is no name of a limit"),
        ({"limits": ["a\0b"]}, "is no name of a limit"),
        ({"limits": ["\ud800"]}, "surrogate"),
        ({"limits": ["paypal"]}, 'there is no limit "paypal": if code declares it, run migrate'),
    ],
)
def test_a_wrong_value_is_refused_and_nothing_is_written(given: dict[str, Any], text: str):
    with refused(InvalidMessage, text):
        enqueue("h", **given)
    with refused(InvalidMessage, f"message 2 of 2: .*{text}"):
        enqueue_many([NewMessage(handler="h"), NewMessage(handler="h", **given)])
    assert not Message.objects.exists()
    answer = enqueue("h", on_refused="return", **given)
    assert answer.outcome == "invalid"


@pytest.mark.parametrize("wrong", ["stripe", [5], [""], 5])
def test_a_handler_with_wrong_limits_is_refused(wrong: Any):
    with pytest.raises(ValueError, match="limits of the handler 'charge'"):
        handler("charge", limits=wrong)
