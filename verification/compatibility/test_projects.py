"""The same story in projects that are set up differently: see story.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Told = dict[str, Any]
LiveThrough = Callable[..., Told]

pytestmark = pytest.mark.django_db
# Groups that the story's handlers write; "refused" is rolled back.
HANDLED = ["async one", "atomic one", "plain one"]


def assert_sound(told: Told) -> None:
    assert told["checks"] == []
    assert told["no changes"]
    assert told["rolled back"] == 0
    assert told["left"] == 0
    assert told["dead"] == ["shop.refused"]
    assert set(HANDLED) < set(told["groups"])
    assert not [name for name in told["groups"] if name.startswith("refused")]


def test_a_plain_project(live_through: LiveThrough) -> None:
    told = live_through()
    assert_sound(told)
    assert told["wsgi"] == [200, 500]
    assert told["asgi"] == [200, 500, 200]
    # Each statement of a request commits by itself here: the rows and the message of the broken ones stay.
    assert {"sound", "broken", "sound-asgi", "broken-asgi"} < set(told["groups"])
    assert {"atomic broken", "atomic broken-asgi", "atomic async"} < set(told["groups"])


def test_with_atomic_requests_a_request_that_fails_enqueues_nothing(live_through: LiveThrough) -> None:
    told = live_through(atomic_requests=True)
    assert_sound(told)
    assert told["wsgi"] == [200, 500]
    assert told["asgi"] == [200, 500, 200]
    assert {"sound", "atomic sound", "sound-asgi", "atomic sound-asgi", "atomic async"} < set(told["groups"])
    assert not [name for name in told["groups"] if "broken" in name]


def test_the_native_pool(live_through: LiveThrough) -> None:
    pytest.importorskip("psycopg_pool")
    assert_sound(live_through(options={"pool": {"min_size": 1, "max_size": 6}}))


def test_server_side_binding(live_through: LiveThrough) -> None:
    assert_sound(live_through(options={"server_side_binding": True}))


def test_a_schema_of_its_own(live_through: LiveThrough) -> None:
    told = live_through(options={"options": "-c search_path=elsewhere"})
    assert_sound(told)
    assert told["schema"] == "elsewhere"


def test_an_alias_of_its_own_works_but_is_outside_of_the_transaction(live_through: LiveThrough) -> None:
    told = live_through(own_alias=True)
    assert told["rolled back"] == 1, "the message outlives the transaction of the rows that it belongs to"
    assert told["checks"] == ["pgqueue.W004"]
    assert told["left"] == 0
    assert set(HANDLED) < set(told["groups"])
    # A write of an atomic handler to another database is committed before, also if its message fails.
    assert "refused one" in told["groups"]
