"""Order keys in the simulation: small cases whose answer can be computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from django_pgqueue.spark.simulate.engine import Simulation
from django_pgqueue.spark.simulate.lane import SimulatedMessage
from django_pgqueue.spark.simulate.limits import ChannelLimits, SharedLimits
from tests.spark.simulate.lakes import at, make_lake, row
from tests.spark.simulate.test_engine import message, serve
from tests.spark.simulate.test_workload import load, seconds


def keyed(number: int, key: str | None = "k", **more: Any) -> SimulatedMessage:
    return message(number, **{"key": key} | more)


def test_messages_of_a_key_run_one_after_the_other_and_block_no_others() -> None:
    began, result = serve([keyed(1), keyed(2), keyed(3), keyed(4, "other"), keyed(5, None)], slots=5)
    assert began == {1: 0, 4: 0, 5: 0, 2: 10, 3: 20}
    assert result.left == {}


def test_a_key_belongs_to_its_channel() -> None:
    began, _ = serve([keyed(1, channel="a"), keyed(2, channel="b")], slots=5)
    assert began == {1: 0, 2: 0}


def test_a_priority_changes_nothing_within_a_key() -> None:
    began, _ = serve([keyed(1), keyed(2, rank=-5), keyed(3, None, rank=-1)], slots=1)
    assert began == {3: 0, 1: 10, 2: 20}


def test_a_message_that_failed_holds_its_key_and_not_its_channel() -> None:
    """Number 1 fails at 10, is due again at 60, and is done at 70."""
    failing = keyed(1, runs=(10, 10), pauses=(50,))
    waits: dict[int, int] = {}
    record = lambda served, waited: waits.update({served.id: waited})  # noqa: E731
    Simulation({"a": ChannelLimits()}, 5, record).run([failing, keyed(2), keyed(3, "other")])
    assert waits == {3: 0, 1: 0, 2: 70}


def test_a_message_for_later_holds_up_those_of_its_key_that_were_enqueued_after_it() -> None:
    began, _ = serve([keyed(1, due_at=100), keyed(2, at=5), keyed(3, "other", at=5)], slots=5)
    assert began == {3: 5, 1: 100, 2: 110}


def test_a_message_that_waits_for_its_key_takes_no_place_of_its_channel() -> None:
    messages = [keyed(1), keyed(2), keyed(3, "other"), keyed(4, "third")]
    began, _ = serve(messages, slots=5, a=ChannelLimits(max_concurrency=2))
    assert began == {1: 0, 3: 0, 2: 10, 4: 10}


def test_the_next_of_a_key_follows_a_dead_letter() -> None:
    began, _ = serve([keyed(1, dies=True), keyed(2)], slots=5)
    assert began == {1: 0, 2: 10}


def test_a_message_that_waits_for_a_shared_limit_keeps_the_turn_of_its_key() -> None:
    waits: dict[int, int] = {}
    record = lambda served, waited: waits.update({served.id: waited})  # noqa: E731
    messages = [message(1, "b", run=30, shared=("s",)), keyed(2, shared=("s",)), keyed(3)]
    Simulation({}, 5, record, shared=[SharedLimits("s", max_concurrency=1)]).run(messages)
    assert waits == {1: 0, 2: 30, 3: 40}


def test_a_key_changes_nothing_in_an_ordered_channel() -> None:
    began, _ = serve([keyed(1), keyed(2, "other"), keyed(3)], slots=5, a=ChannelLimits(ordered=True))
    assert began == {1: 0, 2: 10, 3: 20}


def test_messages_behind_one_that_never_runs_are_left() -> None:
    shared = [SharedLimits("s", max_concurrency=0)]
    result = Simulation({}, 5, lambda served, waited: None, shared=shared).run([keyed(1, shared=("s",)), keyed(2)])
    assert result.left == {"a": 2}


@pytest.mark.parametrize(("key", "arrives_at"), [("k", 1), (None, 60)])
def test_a_message_of_the_archive_holds_its_key_from_its_enqueue_on(
    lake: Path, key: str | None, arrives_at: int
) -> None:
    later = row(created=1, leased=60, settled=61, dequeue_at=at(60), order_key=key)
    [found] = load(make_lake(lake, archive=[later])).messages(1)
    assert (found.key, seconds(found.arrives_at), seconds(found.due_at)) == (key, arrives_at, 60)
