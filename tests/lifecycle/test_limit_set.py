from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import Delivery, complete, dequeue, enqueue, handler, limit_drop, limit_set
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import SharedLimit
from tests.support.cases import cases
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def handlers_of(name: str) -> list[str]:
    return [
        found
        for (found,) in sql(
            "SELECT h.handler FROM pgqueue_limit_handler AS h JOIN pgqueue_limit AS l ON l.id = h.limit_id "
            "WHERE l.name = %s ORDER BY 1",
            name,
        )
    ]


def test_a_limit_is_made_and_its_id_returned():
    id_ = limit_set("stripe", max_concurrency=20, rate="100/s burst 50", max_cost=1000)
    limit = SharedLimit.objects.get()
    assert (limit.pk, limit.name, limit.max_concurrency, limit.max_cost) == (id_, "stripe", 20, 1000)
    assert (limit.release_interval, limit.release_burst) == (timedelta(milliseconds=10), 50)


def test_settings_that_are_not_given_stay_and_none_lifts_a_limit():
    id_ = limit_set("stripe", max_concurrency=20, rate="1/m burst 5", handlers=["h"])
    assert limit_set("stripe", max_concurrency=None) == id_
    limit = SharedLimit.objects.get()
    assert (limit.max_concurrency, limit.release_interval, limit.release_burst) == (None, timedelta(minutes=1), 5)
    limit_set("stripe", rate=None)
    limit = SharedLimit.objects.get()
    assert (limit.release_interval, limit.release_burst) == (None, 1)
    assert handlers_of("stripe") == ["h"]


def test_it_holds_for_messages_that_name_it():
    limit_set("stripe", max_concurrency=1)
    for _ in range(3):
        enqueue("h", limits=["stripe"])
    free = enqueue("h")
    first = dequeue(limit=10)
    assert len(first) == 2
    assert free.id in {delivery.id for delivery in first}
    assert dequeue(limit=10) == []
    complete(first)
    assert len(dequeue(limit=10)) == 1


def test_handlers_are_names_or_functions_and_replace_those_of_before(handlers_restored: None):
    @handler("limited.one")
    def one(delivery: Delivery) -> None: ...

    limit_set("stripe", max_concurrency=1, handlers=[one, "h", "h"])
    assert handlers_of("stripe") == ["h", "limited.one"]
    for _ in range(2):
        enqueue("h")
        one.enqueue()
    assert len(dequeue(limit=10)) == 1
    limit_set("stripe", handlers=[])
    assert handlers_of("stripe") == []


@cases(
    ("wrong", "text"),
    [
        ({"max_concurrency": "3"}, "max_concurrency is not an integer but str"),
        ({"max_concurrency": True}, "max_concurrency is not an integer but bool"),
        ({"max_concurrency": 0}, "pause the limit instead"),
        ({"max_cost": 1.5}, "max_cost is not an integer but float"),
        ({"rate": "often"}, "no rate"),
        ({"rate": "1/s", "release_burst": 2}, "rate stands for"),
        ({"release_interval": 5}, "release_interval is not a timedelta but int"),
        ({"release_interval": timedelta(0)}, "release_interval is not between"),
        ({"release_burst": None}, "release_burst is not an integer but NoneType"),
        ({"handlers": "h"}, "handlers are not a list but str"),
        ({"handlers": [5]}, "neither a name nor a function"),
    ],
)
def test_a_wrong_value_is_refused_and_changes_nothing(wrong: dict[str, Any], text: str):
    limit_set("stripe", max_concurrency=2)
    with refused(InvalidMessage, text):
        limit_set("stripe", **wrong)
    assert SharedLimit.objects.get().max_concurrency == 2


@cases("handlers", ['"h"', '[["h"]]', "[5]", "null", '{"h": 1}'])
def test_callers_of_other_languages_get_a_refusal_for_handlers_that_are_no_names(handlers: str):
    [(text,)] = sql(f"""SELECT refusal ->> 'message' FROM pgqueue_limit_set('stripe', '{{"handlers": {handlers}}}')""")
    assert text == "invalid limit: handlers is not a JSON array of names"


@cases("name", ["", "x" * 201, "a\0b", 5, None])
def test_a_name_that_is_none_is_refused(name: Any):
    with refused(InvalidMessage):
        limit_set(name, max_concurrency=1)
    assert not SharedLimit.objects.exists()


def test_a_dropped_limit_holds_no_message_and_the_second_drop_says_so():
    limit_set("stripe", max_concurrency=1, handlers=["h"])
    for _ in range(3):
        enqueue("h", limits=["stripe"])
    assert len(dequeue(limit=10)) == 1
    assert limit_drop("stripe") is True
    assert sum(len(dequeue(limit=10)) for _ in range(3)) == 2
    assert limit_drop("stripe") is False
    with refused(InvalidMessage, "name is not a str"):
        limit_drop(5)  # type: ignore[arg-type]
