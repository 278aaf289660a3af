"""Carry the W3C trace context: the handler's spans and messages belong to the trace of the enqueuer.

With opentelemetry-api installed, the current span's context is carried, and becomes the handler's. Without it, the
headers are passed on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django_pgqueue.delivery import Delivery

try:
    from opentelemetry import context as otel
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    otel = None  # type: ignore[assignment]  # None: it is not installed

PARENT, STATE = "traceparent", "tracestate"
# Later versions may have more parts.
VALID = re.compile(
    r"(?:00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}|(?!00|ff)[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?)"
)
ZEROS = re.compile(r"..-(?:0{32}-|.{32}-0{16})")

_carried: ContextVar[dict[str, str] | None] = ContextVar("pgqueue_trace", default=None)


def capture() -> dict[str, str]:
    """Return the present headers ``traceparent`` and ``tracestate``, if there are any."""
    current: dict[str, str] = {}
    if otel is not None:
        TraceContextTextMapPropagator().inject(current)
    return current or dict(_carried.get() or {})


@contextmanager
def carry(headers: Mapping[str, Any]) -> Iterator[None]:
    """Make the code inside belong to the trace of these headers, for a request (``carry(request.headers)``) or a
    message.

    An invalid ``traceparent`` counts as none, as the standard requires.
    """
    found = {key: headers[key] for key in (PARENT, STATE) if isinstance(headers.get(key), str)}
    parent = found.get(PARENT, "")
    if not VALID.fullmatch(parent) or ZEROS.match(parent):
        yield
        return
    before = _carried.set(found)
    entered = None if otel is None else otel.attach(TraceContextTextMapPropagator().extract(found))
    try:
        yield
    finally:
        if entered is not None:
            otel.detach(entered)
        _carried.reset(before)


def restore(delivery: Delivery) -> Any:
    """Make the handler belong to the trace of its message."""
    return carry(delivery.headers)


restore.reads = (PARENT, STATE)  # type: ignore[attr-defined]  # mypy knows no attributes of functions
