"""Spans and metrics as OpenTelemetry's SDK exports them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import baggage, context, metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from django_pgqueue import Defer, Delivery, Retry, handlers
from django_pgqueue.contrib import opentelemetry
from django_pgqueue.worker.executor import execute
from django_pgqueue.worker.middleware import Middleware
from tests.support.deliveries import DELIVERY

EXPORTER, READER = InMemorySpanExporter(), InMemoryMetricReader()


@pytest.fixture(scope="module", autouse=True)
def _providers() -> None:
    """Those of the process: they can be set once."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([READER]))


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    EXPORTER.clear()
    yield
    handlers.unregister("h")


def call(function: Callable[..., Any], *deliveries: Delivery, **policy: Any) -> None:
    """The handler runs as a worker runs it."""
    handlers.handler("h", **policy)(function)
    handler = Middleware(["django_pgqueue.contrib.opentelemetry.process"]).find("h")
    if policy:
        execute(handler.function, list(deliveries))
    else:
        execute(handler.function, deliveries[0])


def spans(kind: SpanKind) -> list[ReadableSpan]:
    return [span for span in EXPORTER.get_finished_spans() if span.kind == kind]


def enqueued(number: int = 1) -> Delivery:
    return replace(DELIVERY, id=number, headers=opentelemetry.capture())


def test_a_handler_belongs_to_the_trace_of_the_enqueuer() -> None:
    with trace.get_tracer("tests").start_as_current_span("request") as request:
        delivery = enqueued(4711)
    call(lambda delivery: None, delivery)
    [sent], [processed] = spans(SpanKind.PRODUCER), spans(SpanKind.CONSUMER)
    assert sent.parent.span_id == request.get_span_context().span_id
    assert processed.parent.span_id == sent.context.span_id
    assert processed.context.trace_id == request.get_span_context().trace_id
    assert processed.name == f"process {DELIVERY.queue}"
    assert processed.attributes["messaging.system"] == "pgqueue"
    assert processed.attributes["messaging.destination.name"] == DELIVERY.queue
    assert processed.attributes["messaging.message.id"] == "4711"
    assert processed.status.is_unset


def test_the_work_of_a_handler_is_below_its_span_and_sees_the_baggage() -> None:
    seen = []
    token = context.attach(baggage.set_baggage("tenant", "acme"))
    delivery = enqueued()
    context.detach(token)

    def work(delivery: Delivery) -> None:
        seen.append((trace.get_current_span().get_span_context().span_id, baggage.get_baggage("tenant")))

    call(work, delivery)
    assert seen == [(spans(SpanKind.CONSUMER)[0].context.span_id, "acme")]
    assert baggage.get_baggage("tenant") is None


def test_a_batch_is_linked_to_each_message() -> None:
    deliveries = [enqueued(number) for number in (1, 2, 3)]
    called = []
    call(called.append, *deliveries, batch=10)
    [processed] = spans(SpanKind.CONSUMER)
    assert [len(batch) for batch in called] == [3]
    assert processed.parent is None
    assert [link.context.span_id for link in processed.links] == [
        span.context.span_id for span in spans(SpanKind.PRODUCER)
    ]
    assert processed.attributes["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in processed.attributes


@pytest.mark.parametrize("headers", [{}, {"traceparent": 7}, {"traceparent": "no"}, {"baggage": ["x"]}])
def test_without_a_valid_context_a_trace_begins(headers: dict[str, Any]) -> None:
    call(lambda delivery: None, replace(DELIVERY, headers=headers))
    [processed] = spans(SpanKind.CONSUMER)
    assert processed.parent is None


def test_an_error_is_recorded_by_its_type_alone() -> None:
    def fail(delivery: Delivery) -> None:
        raise ValueError("canary-of-an-error")

    call(fail, enqueued())
    [processed] = spans(SpanKind.CONSUMER)
    assert processed.attributes["error.type"] == "ValueError"
    assert not processed.status.is_ok
    assert "canary" not in processed.to_json()


@pytest.mark.parametrize(("outcome", "error"), [(Defer(), None), (Retry(), "Retry")])
def test_outcomes_that_are_raised(outcome: Exception, error: str | None) -> None:
    def end(delivery: Delivery) -> None:
        raise outcome

    call(end, enqueued())
    assert spans(SpanKind.CONSUMER)[0].attributes.get("error.type") == error


def test_messages_of_different_traces_may_be_in_one_batch() -> None:
    handlers.handler("h", batch=10)(lambda deliveries: None)
    assert Middleware(["django_pgqueue.contrib.opentelemetry.process"]).alike is None


def test_durations_and_counts() -> None:
    handled = [replace(enqueued(number), queue="measured") for number in (1, 2)]
    call(lambda deliveries: None, *handled, batch=10)
    [scope] = READER.get_metrics_data().resource_metrics[0].scope_metrics
    points = {
        metric.name: point
        for metric in scope.metrics
        for point in metric.data.data_points
        if point.attributes["messaging.destination.name"] == "measured"
    }
    assert points["messaging.client.consumed.messages"].value == 2
    assert points["messaging.process.duration"].count == 1
    assert points["messaging.process.duration"].attributes["pgqueue.handler"] == "h"
