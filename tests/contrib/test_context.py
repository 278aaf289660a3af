"""The trace: captured where a message is enqueued, restored where it is handled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import reload
from types import ModuleType
from typing import Any

import pytest

from django_pgqueue import Delivery
from django_pgqueue.contrib.context import trace
from tests.support.deliveries import DELIVERY

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STATE = "congo=t61rcWkgMzE"


def of(**headers: Any) -> Delivery:
    return replace(DELIVERY, headers=headers)


@pytest.fixture(params=["with opentelemetry", "without"])
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    if request.param == "without":
        for name in [name for name in sys.modules if name.split(".")[0] == "opentelemetry"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "opentelemetry", None)
    yield reload(trace)
    monkeypatch.undo()
    reload(trace)


class TestTrace:
    def test_it_arrives_and_goes_on_to_what_the_handler_enqueues(self, module: ModuleType) -> None:
        with module.carry({"traceparent": PARENT, "tracestate": STATE}):
            captured = module.capture()
        assert captured == {"traceparent": PARENT, "tracestate": STATE}
        with module.restore(of(**captured, tenant="acme")):
            assert module.capture() == captured
        assert module.capture() == {}

    @pytest.mark.parametrize(
        "parent",
        [
            "",
            "garbage",
            7,
            PARENT.upper(),
            PARENT[:-1],
            PARENT + "-more",
            "ff" + PARENT[2:],
            "00-" + "0" * 32 + PARENT[35:],
            PARENT[:36] + "0" * 16 + "-01",
        ],
    )
    def test_an_invalid_traceparent_counts_as_none(self, module: ModuleType, parent: Any) -> None:
        with module.restore(of(traceparent=parent, tracestate=STATE)):
            assert module.capture() == {}

    def test_a_later_version_of_the_standard_is_taken(self, module: ModuleType) -> None:
        with module.restore(of(traceparent="01" + PARENT[2:] + "-more")):
            assert module.capture()["traceparent"][3:35] == PARENT[3:35]

    def test_opentelemetry_sees_it(self) -> None:
        from opentelemetry.trace import get_current_span

        with trace.restore(of(traceparent=PARENT)):
            span = get_current_span().get_span_context()
        assert (f"{span.trace_id:032x}", f"{span.span_id:016x}") == (PARENT[3:35], PARENT[36:52])
        assert span.is_remote
        assert not get_current_span().get_span_context().is_valid

    def test_the_current_span_of_opentelemetry_is_sent(self) -> None:
        from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

        span = NonRecordingSpan(SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=TraceFlags(1)))
        with trace.carry({"traceparent": PARENT}), use_span(span):
            assert trace.capture() == {"traceparent": f"00-{0xABC:032x}-{0xDEF:016x}-01"}
