"""Emit spans and metrics by OpenTelemetry's conventions for messaging, with opentelemetry-api alone (the extra).

``capture`` for ENQUEUE_CONTEXT: a producer span, whose context is carried in the headers. ``process`` for
HANDLER_MIDDLEWARE: a consumer span around the handler, below the producer's; for a batch, linked to each of them.

No payload and no text of an exception goes into a span, because a handler's texts may be secret.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import context, metrics, propagate, trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from django_pgqueue import __version__
from django_pgqueue.delivery import Delivery
from django_pgqueue.outcomes import Outcome, Retry

# The conventions for messaging are still in development: these names are those of their version 1.38.
SYSTEM = {"messaging.system": "pgqueue"}

tracer = trace.get_tracer("django_pgqueue", __version__)
meter = metrics.get_meter("django_pgqueue", __version__)
duration = meter.create_histogram("messaging.process.duration", unit="s", description="Duration of a handler's call.")
consumed = meter.create_counter(
    "messaging.client.consumed.messages", unit="{message}", description="Messages that were given to a handler."
)


def capture() -> dict[str, str]:
    """Return the headers of a producer span, by the configured propagators: ``traceparent``, ``tracestate``,
    ``baggage``."""
    headers: dict[str, str] = {}
    kind = {"messaging.operation.name": "enqueue", "messaging.operation.type": "send"}
    with tracer.start_as_current_span("enqueue", kind=SpanKind.PRODUCER, attributes=SYSTEM | kind):
        propagate.inject(headers)
    return headers


@contextmanager
def process(given: Delivery | Sequence[Delivery]) -> Iterator[None]:
    """Record a consumer span around one call of a handler, and its duration."""
    deliveries = [given] if isinstance(given, Delivery) else list(given)
    sources = [propagate.extract(texts(delivery)) for delivery in deliveries]
    attributes = attributes_of(deliveries)
    links = [] if len(sources) == 1 else [link for source in sources if (link := link_to(source))]
    # A single source becomes the current context, so that the handler gets its baggage.
    token = context.attach(sources[0]) if len(sources) == 1 else None
    started_at = time.perf_counter()
    measured = {key: attributes[key] for key in ("messaging.system", "messaging.destination.name", "pgqueue.handler")}
    measured["messaging.operation.name"] = "process"
    try:
        with tracer.start_as_current_span(
            f"process {deliveries[0].queue}", kind=SpanKind.CONSUMER, attributes=attributes, links=links,
            record_exception=False, set_status_on_exception=False,
        ) as span:  # fmt: skip
            try:
                yield
            except BaseException as error:
                if isinstance(error, Retry) or not isinstance(error, Outcome):
                    measured["error.type"] = type(error).__qualname__
                    span.set_attribute("error.type", measured["error.type"])
                    span.set_status(Status(StatusCode.ERROR))
                raise
    finally:
        duration.record(time.perf_counter() - started_at, measured)
        consumed.add(len(deliveries), measured)
        if token is not None:
            context.detach(token)


# One call may handle messages of many traces, so batches are not split by trace.
process.reads = ()  # type: ignore[attr-defined]  # mypy knows no attributes of functions
process.whole = True  # type: ignore[attr-defined]  # mypy knows no attributes of functions


def texts(delivery: Delivery) -> dict[str, str]:
    """Return the headers that are texts."""
    return {key: value for key, value in delivery.headers.items() if isinstance(value, str)}


def link_to(source: context.Context) -> Link | None:
    """Return a link to the span of this context, or None."""
    found = trace.get_current_span(source).get_span_context()
    return Link(found) if found.is_valid else None


def attributes_of(deliveries: Sequence[Delivery]) -> dict[str, Any]:
    """Return the attributes of the span."""
    first = deliveries[0]
    attributes = SYSTEM | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": first.queue,
        "pgqueue.handler": first.handler,
    }
    if len(deliveries) > 1:
        return attributes | {"messaging.batch.message_count": len(deliveries)}
    return attributes | {
        "messaging.message.id": str(first.id),
        "pgqueue.channel": first.channel,
        "pgqueue.attempt": first.attempt,
    }
