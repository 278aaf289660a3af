"""Report to Sentry: publish and process spans in one trace, and the errors of handlers (extra ``sentry``).

``capture`` for ENQUEUE_CONTEXT, ``process`` for HANDLER_MIDDLEWARE. The project calls ``sentry_sdk.init`` itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import sentry_sdk
from sentry_sdk.consts import OP

from django_pgqueue.delivery import Delivery
from django_pgqueue.outcomes import Outcome

ORIGIN = "auto.queue.pgqueue"
# Sentry's names, and those in the headers of a message, where "baggage" belongs to OpenTelemetry.
CARRIED = {"sentry-trace": "sentry-trace", "baggage": "sentry-baggage"}


def capture() -> dict[str, str]:
    """Return the headers that link the message with its enqueue."""
    with sentry_sdk.start_span(op=OP.QUEUE_PUBLISH, name="enqueue", origin=ORIGIN) as span:
        span.set_data("messaging.system", "pgqueue")
        found = {"sentry-trace": sentry_sdk.get_traceparent(), "baggage": sentry_sdk.get_baggage()}
    return {CARRIED[name]: value for name, value in found.items() if value}


@contextmanager
def process(given: Delivery | Sequence[Delivery]) -> Iterator[None]:
    """Record a transaction around one call of a handler. Its exceptions are captured, except outcomes."""
    deliveries = [given] if isinstance(given, Delivery) else list(given)
    first = deliveries[0]
    headers = first.headers if len(deliveries) == 1 else {}
    carried = {name: headers[ours] for name, ours in CARRIED.items() if isinstance(headers.get(ours), str)}
    with sentry_sdk.isolation_scope() as scope:
        scope.set_tags(
            {"pgqueue.queue": first.queue, "pgqueue.channel": first.channel, "pgqueue.handler": first.handler}
        )
        transaction = sentry_sdk.continue_trace(
            carried, op=OP.QUEUE_PROCESS, name=first.handler, source="task", origin=ORIGIN
        )
        with sentry_sdk.start_transaction(transaction):
            for key, value in data_of(deliveries).items():
                transaction.set_data(key, value)
            outcome = None
            try:
                yield
            except Outcome as raised:
                outcome = raised
                transaction.set_status("ok")
            except Exception as error:
                sentry_sdk.capture_exception(error)
                raise
    # Raised after the transaction, which would count the outcome as an error.
    if outcome is not None:
        raise outcome


process.reads = ()  # type: ignore[attr-defined]  # mypy knows no attributes of functions
process.whole = True  # type: ignore[attr-defined]  # mypy knows no attributes of functions


def data_of(deliveries: Sequence[Delivery]) -> dict[str, str | int | float]:
    """Return the span's attributes for a message, in Sentry's names for queues; for a batch only its size."""
    first = deliveries[0]
    data: dict[str, str | int | float] = {"messaging.system": "pgqueue", "messaging.destination.name": first.queue}
    if len(deliveries) > 1:
        return data | {"messaging.batch.message_count": len(deliveries)}
    # The clock of the database gives when the message was due, this host's the present; they may differ.
    latency = max(0.0, (datetime.now(UTC) - first.dequeue_at).total_seconds())
    return data | {
        "messaging.message.id": str(first.id),
        "messaging.message.retry.count": first.attempt - 1,
        "messaging.message.receive.latency": round(latency * 1000, 3),
    }
