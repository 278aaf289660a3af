"""The completer writes together what one call of a verb can settle, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_pgqueue import Complete, Defer, Delivery, Reject, Retry, handlers
from django_pgqueue.worker.completer import settlement_batches
from django_pgqueue.worker.executor import COMPLETED, Execution

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    handlers.handler("batches.full")(lambda delivery: None)
    handlers.handler("batches.none", archive="none")(lambda delivery: None)
    yield
    handlers.unregister("batches.full")
    handlers.unregister("batches.none")


def done(number: int, outcome: Any = COMPLETED, handler: str = "batches.full") -> Execution:
    delivery = Delivery(
        id=number, queue="q", channel="c", handler=handler, payload=None, body=None, headers={}, priority=0, attempt=1,
        max_attempts=5, token=None, lease_expires_at=None, state=None, created_at=NOW, dequeue_at=NOW,
    )  # fmt: skip
    return Execution(delivery, outcome)


def ids(executions: list[Execution]) -> list[list[int]]:
    return [[execution.delivery.id for execution in batch] for batch in settlement_batches(executions)]


def test_completed_messages_go_together_in_the_order_of_their_ids() -> None:
    assert ids([done(3), done(1), done(2, handler="unknown")]) == [[1, 2, 3]]


def test_handlers_that_archive_differently_are_settled_apart() -> None:
    assert ids([done(1), done(2, handler="batches.none"), done(3), done(4, handler="batches.none")]) == [[1, 3], [2, 4]]


def test_an_outcome_with_an_archive_of_its_own_goes_with_handlers_of_that_archive() -> None:
    own = done(2, Complete(archive="none"))
    assert ids([done(1), own, done(3, handler="batches.none"), done(4, Complete())]) == [[1, 4], [2, 3]]


def test_a_message_that_is_there_twice_is_settled_in_two_calls() -> None:
    assert ids([done(1), done(2), done(1)]) == [[1, 2], [1]]


def test_each_verb_and_its_arguments_make_a_call_of_their_own() -> None:
    found = [
        done(1), done(2, Retry()), done(3, Defer(delay=timedelta(1))), done(4, Defer(delay=timedelta(2))),
        done(5, Reject("a")), done(6, Reject("b")), done(7, Retry()), done(8),
    ]  # fmt: skip
    assert ids(found) == [[1, 8], [2, 7], [3], [4], [5], [6]]


@dataclass
class Progress:
    page: int
    key: str = field(repr=False)


class Broken:
    def __repr__(self) -> str:
        raise AttributeError("never initialised")


def test_states_and_details_that_only_look_alike_are_written_apart() -> None:
    first, second = Progress(2, "a"), Progress(2, "b")
    assert repr(first) == repr(second)
    assert ids([done(1, Defer(state=first)), done(2, Defer(state=second))]) == [[1], [2]]
    assert ids([done(1, Reject("no", first)), done(2, Reject("no", second))]) == [[1], [2]]


def test_equal_states_and_states_that_are_kept_go_together() -> None:
    same = [done(number, Defer(state=Progress(2, "a"))) for number in (1, 2)]
    kept = [done(number, Defer()) for number in (3, 4)]
    assert ids([*same, *kept, done(5, Defer(state="KEEP"))]) == [[1, 2], [3, 4], [5]]


def test_a_state_that_is_no_json_and_cannot_be_shown_stands_alone() -> None:
    assert ids([done(1, Defer(state=Broken())), done(2, Defer(state=Broken())), done(3)]) == [[1], [2], [3]]
