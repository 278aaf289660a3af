"""Payloads are JSON of any value, and nothing else."""

from __future__ import annotations

import math

import pytest

from django_pgqueue import dequeue, enqueue
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Message
from tests.support.cases import cases
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def test_deep_json_passes():
    enqueue("h", nested(500))
    [delivery] = dequeue()
    assert delivery.payload == nested(500)


circular: list[object] = []


circular.append(circular)


@cases(
    ("payload", "problem"),
    [
        ({1, 2}, "not JSON"),
        (object(), "not JSON"),
        (b"bytes", "not JSON"),
        ({("a", "tuple"): 1}, "not JSON"),
        (math.nan, "not JSON"),
        ([math.inf], "not JSON"),
        (circular, "not JSON"),
        (nested(100_000), "not JSON"),
        ("a\0b", "u0000"),
        ({"a\0b": 1}, "u0000"),
        ("\\\0", "u0000"),
        ("\ud800", "surrogate"),
        ({"\udfff": 1}, "surrogate"),
    ],
)
def test_a_payload_that_is_not_json_is_refused_and_says_why(payload: object, problem: str):
    for given in ({"payload": payload}, {"headers": {"x": payload}}):
        with refused(InvalidMessage, problem) as raised:
            enqueue("h", **given)
        assert raised.value.hint
    assert not Message.objects.exists()
