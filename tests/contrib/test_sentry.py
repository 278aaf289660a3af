"""The spans and errors that Sentry gets; its transport is replaced by a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from django_pgqueue import Defer, Delivery, handlers
from django_pgqueue.contrib import sentry
from django_pgqueue.worker.executor import execute
from django_pgqueue.worker.middleware import Middleware
from tests.support.deliveries import DELIVERY


class Listening(Transport):
    def __init__(self) -> None:
        super().__init__()
        self.events: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.events += [item.payload.json for item in envelope.items if item.payload.json]


@pytest.fixture
def sent() -> Iterator[list[dict[str, Any]]]:
    transport = Listening()
    with sentry_sdk.isolation_scope() as scope:
        client = sentry_sdk.Client(
            dsn="https://public@sentry.invalid/1",
            transport=transport,
            traces_sample_rate=1.0,
            default_integrations=False,
        )
        scope.set_client(client)
        yield transport.events
        client.close()
    handlers.unregister("h")


def call(function: Callable[..., Any], *deliveries: Delivery, **policy: Any) -> None:
    handlers.handler("h", **policy)(function)
    handler = Middleware(["django_pgqueue.contrib.sentry.process"]).find("h")
    if policy:
        execute(handler.function, list(deliveries))
    else:
        execute(handler.function, deliveries[0])


def enqueued(**fields: Any) -> Delivery:
    return replace(DELIVERY, handler="h", headers=sentry.capture(), **fields)


def of(sent: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in sent if (event.get("type") == "transaction") == (kind == "transaction")]


def test_a_handler_belongs_to_the_trace_of_the_enqueuer(sent: list[dict[str, Any]]) -> None:
    with sentry_sdk.start_transaction(name="request"):
        delivery = enqueued(id=4711, attempt=2)
    call(lambda delivery: None, delivery)
    request, processed = of(sent, "transaction")
    [published] = request["spans"]
    trace = processed["contexts"]["trace"]
    assert (published["op"], trace["op"], processed["transaction"]) == ("queue.publish", "queue.process", "h")
    assert trace["trace_id"] == request["contexts"]["trace"]["trace_id"]
    assert trace["parent_span_id"] == published["span_id"]
    assert trace["data"]["messaging.message.id"] == "4711"
    assert trace["data"]["messaging.message.retry.count"] == 1
    assert trace["data"]["messaging.destination.name"] == DELIVERY.queue
    assert processed["tags"]["pgqueue.handler"] == "h"


def test_an_error_of_a_handler_is_captured_with_its_place(sent: list[dict[str, Any]]) -> None:
    def fail(delivery: Delivery) -> None:
        raise ValueError("no such order")

    call(fail, enqueued(channel="acme"))
    [event], [processed] = of(sent, "error"), of(sent, "transaction")
    assert event["exception"]["values"][-1]["type"] == "ValueError"
    assert event["tags"]["pgqueue.channel"] == "acme"
    assert processed["contexts"]["trace"]["status"] == "internal_error"


def test_an_outcome_is_no_error(sent: list[dict[str, Any]]) -> None:
    def later(delivery: Delivery) -> None:
        raise Defer()

    call(later, enqueued())
    assert of(sent, "error") == []
    assert of(sent, "transaction")[0]["contexts"]["trace"]["status"] == "ok"


def test_a_batch_is_one_transaction(sent: list[dict[str, Any]]) -> None:
    call(lambda deliveries: None, enqueued(id=1), enqueued(id=2), batch=10)
    [processed] = of(sent, "transaction")
    assert processed["contexts"]["trace"]["data"]["messaging.batch.message_count"] == 2


@pytest.mark.parametrize("headers", [{}, {"sentry-trace": 7}, {"sentry-trace": "no", "sentry-baggage": ["x"]}])
def test_headers_that_mean_nothing_do_no_harm(sent: list[dict[str, Any]], headers: dict[str, Any]) -> None:
    call(lambda delivery: None, replace(DELIVERY, handler="h", headers=headers))
    assert len(of(sent, "transaction")) == 1


def test_without_sentry_set_up_nothing_happens() -> None:
    done = []
    call(done.append, replace(DELIVERY, handler="h", headers=sentry.capture()))
    assert len(done) == 1
    handlers.unregister("h")
