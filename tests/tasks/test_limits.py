"""Tasks have shared limits and a cost."""

from __future__ import annotations

from typing import Any

import pytest

from django_pgqueue import handlers, limit_set
from django_pgqueue.models import Message
from django_pgqueue.tasks import task
from tests.tasks import defined

pytestmark = pytest.mark.usefixtures("queue")


def message(result: Any) -> Message:
    return Message.objects.get(pk=result.id)


def test_a_definition_gives_its_limits_to_every_call() -> None:
    """As those of a handler: a worker that starts writes them to the database, and no message has to name them."""
    assert handlers.names_by_limit()["gpt"] == [defined.summarize.module_path]


def test_a_definition_computes_the_cost_of_a_call() -> None:
    limit_set("gpt", max_concurrency=2)
    assert message(defined.summarize.enqueue("some text")).cost == 9
    assert message(defined.add.enqueue(1)).cost is None


def test_a_call_says_its_own_limits_and_cost() -> None:
    for name in ("gpt", "partner"):
        limit_set(name, max_concurrency=2)
    result = defined.summarize.using(limits=["partner"], cost=1200).enqueue("some text")

    found = message(result)
    assert (len(found.limits), found.cost) == (2, 1200), "its own, and that of the definition"
    assert defined.summarize.get_result(result.id).task == defined.summarize


def test_the_decorator_of_django_names_the_other_one() -> None:
    with pytest.raises(TypeError, match=r"write @options\(cost=…, limits=…\)"):
        task(limits=["gpt"], cost=7)
