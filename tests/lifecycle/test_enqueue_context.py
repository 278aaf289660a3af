"""ENQUEUE_CONTEXT: what surrounds the enqueuer goes into the headers."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import override_settings

from django_pgqueue import NewMessage, aenqueue, enqueue, enqueue_many
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Message

pytestmark = pytest.mark.django_db
tenant: ContextVar[str | None] = ContextVar("tenant", default=None)
calls: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    calls.clear()
    token = tenant.set("acme")
    yield
    tenant.reset(token)


def current_tenant() -> dict[str, Any]:
    calls.append("current_tenant")
    return {"tenant": tenant.get(), "source": "request"}


def nothing() -> None:
    return None


def later() -> dict[str, Any]:
    return {"source": "later"}


def context(*providers: Any) -> Any:
    return override_settings(DJANGO_PGQUEUE={"ENQUEUE_CONTEXT": list(providers)})


def headers_of(message: int | None) -> Any:
    return Message.objects.get(id=message).headers


def test_later_ones_win_and_the_callers_headers_win() -> None:
    with context(f"{__name__}.current_tenant", f"{__name__}.nothing", later):
        assert headers_of(enqueue("h").id) == {"tenant": "acme", "source": "later"}
        sent = enqueue("h", headers={"tenant": "other", "a": 1}).id
    assert headers_of(sent) == {"tenant": "other", "source": "later", "a": 1}


def test_many_messages_are_asked_for_once() -> None:
    with context(current_tenant):
        sent = enqueue_many([NewMessage(handler="h"), NewMessage(handler="h", headers={"a": 1})])
    assert [headers_of(one.id) for one in sent] == [
        {"tenant": "acme", "source": "request"},
        {"tenant": "acme", "source": "request", "a": 1},
    ]
    assert calls == ["current_tenant"]


def test_async_callers_keep_their_context() -> None:
    with context(current_tenant):
        sent = async_to_sync(aenqueue)("h")
    assert headers_of(sent.id)["tenant"] == "acme"


def test_the_caller_gets_the_exception_of_the_context_function() -> None:
    def broken() -> None:
        raise LookupError("no tenant")

    with context(broken), pytest.raises(LookupError, match="no tenant"):
        enqueue("h")
    assert not Message.objects.exists()


@pytest.mark.parametrize("answer", [[("tenant", 1)], "tenant", 7])
def test_an_answer_that_is_no_dict_is_refused(answer: Any) -> None:
    with context(lambda: answer), pytest.raises(InvalidMessage, match="ENQUEUE_CONTEXT returned"):
        enqueue("h")
