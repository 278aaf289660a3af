"""The same story in projects that are set up differently: see story.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Results = dict[str, Any]
LiveThrough = Callable[..., Results]

pytestmark = pytest.mark.django_db
# Groups that the story's handlers write; "refused" is rolled back.
HANDLED = ["async one", "atomic one", "plain one"]


def assert_sound(results: Results) -> None:
    assert results["checks"] == []
    assert results["no changes"]
    assert results["rolled back"] == 0
    assert results["left"] == 0
    assert results["dead"] == ["shop.refused"]
    assert set(HANDLED) < set(results["groups"])
    assert not [name for name in results["groups"] if name.startswith("refused")]


def test_a_plain_project(live_through: LiveThrough) -> None:
    results = live_through()
    assert_sound(results)
    assert results["wsgi"] == [200, 500]
    assert results["asgi"] == [200, 500, 200]
    # Each statement of a request commits by itself here: the rows and the message of the broken ones stay.
    assert {"sound", "broken", "sound-asgi", "broken-asgi"} < set(results["groups"])
    assert {"atomic broken", "atomic broken-asgi", "atomic async"} < set(results["groups"])


def test_with_atomic_requests_a_request_that_fails_enqueues_nothing(live_through: LiveThrough) -> None:
    results = live_through(atomic_requests=True)
    assert_sound(results)
    assert results["wsgi"] == [200, 500]
    assert results["asgi"] == [200, 500, 200]
    assert {"sound", "atomic sound", "sound-asgi", "atomic sound-asgi", "atomic async"} < set(results["groups"])
    assert not [name for name in results["groups"] if "broken" in name]


def test_the_native_pool(live_through: LiveThrough) -> None:
    pytest.importorskip("psycopg_pool")
    assert_sound(live_through(options={"pool": {"min_size": 1, "max_size": 6}}))


def test_server_side_binding(live_through: LiveThrough) -> None:
    assert_sound(live_through(options={"server_side_binding": True}))


def test_a_schema_of_its_own(live_through: LiveThrough) -> None:
    results = live_through(options={"options": "-c search_path=elsewhere"})
    assert_sound(results)
    assert results["schema"] == "elsewhere"


def test_an_alias_of_its_own_works_but_is_outside_of_the_transaction(live_through: LiveThrough) -> None:
    results = live_through(own_alias=True)
    assert results["rolled back"] == 1, "the message outlives the transaction of the rows that it belongs to"
    assert results["checks"] == ["pgqueue.W004"]
    assert results["left"] == 0
    assert set(HANDLED) < set(results["groups"])
    # A write of an atomic handler to another database is committed before, also if its message fails.
    assert "refused one" in results["groups"]
