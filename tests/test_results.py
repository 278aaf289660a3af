"""Whoever waits for messages gets their results, and learns what became of those that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_pgqueue import (
    aenqueue,
    await_all,
    cancel,
    complete,
    dead_letter,
    dequeue,
    discard,
    enqueue,
    enqueue_many,
    queue_purge,
    queue_set,
    redrive,
    wait_all,
)
from django_pgqueue import results as module
from django_pgqueue.delivery import Enqueued, NewMessage
from django_pgqueue.exceptions import MessageFailed, ResultTimeout, ResultUnavailable
from django_pgqueue.flow import Batch
from tests.support.tables import empty_tables
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
Run = Callable[..., "Future[Any]"]


@pytest.fixture(autouse=True)
def _tables(transactional_db: None) -> Iterator[None]:
    empty_tables()
    yield
    # The session of the watcher is gone, or the database could not be dropped.
    eventually(lambda: not any(thread.name == "pgqueue-results" for thread in threading.enumerate()))


@pytest.fixture
def run() -> Iterator[Run]:
    """Call a function in a thread, which closes its session at the end."""

    def call(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        finally:
            connection.close()

    with ThreadPoolExecutor(16) as threads:
        yield lambda function, *given, **named: threads.submit(call, function, *given, **named)


def add(**given: Any) -> Enqueued:
    from django_pgqueue import channel_set

    channel_set(channel=given.get("channel", "default"))
    return enqueue("work", **given)


def settle(result: Any = None) -> None:
    [delivery] = dequeue()
    complete([delivery], results=[result])


def begun(future: Future[Any], count: int = 1) -> None:
    """Return when so many messages are waited for."""
    eventually(lambda: len(module.watcher("default")._futures) >= count or future.done())
    assert not future.done()


def test_a_result_is_there_at_once_when_the_message_has_ended() -> None:
    added = add()
    settle({"total": 7})
    assert added.wait(0) == {"total": 7}
    assert wait_all([added.id, added]) == [{"total": 7}] * 2


def test_a_wait_ends_when_the_message_does(run: Run) -> None:
    added = add()
    waiting = run(added.wait, timeout=timedelta(seconds=30))
    begun(waiting)
    settle("done")
    assert waiting.result(10) == "done"


def test_results_are_in_the_order_asked_for(run: Run) -> None:
    first, second = add(), add()
    waiting = run(wait_all, [second, first], timeout=30)
    begun(waiting, 2)
    settle("first")
    settle("second")
    assert waiting.result(10) == ["second", "first"]


def test_a_wait_that_takes_too_long_says_for_what(run: Run) -> None:
    done, late = add(), add()
    settle()
    with pytest.raises(ResultTimeout, match=rf"1 of 2 messages have not ended in time: \[{late.id}\]") as raised:
        wait_all([done, late], timeout=0.05)
    assert raised.value.ids == (late.id,)
    assert isinstance(raised.value, TimeoutError)
    settle(2)
    assert late.wait(5) == 2, "the message goes on"


def test_a_dead_letter_is_a_failure_with_its_reason() -> None:
    added = add()
    [delivery] = dequeue()
    dead_letter(delivery, reason="card_refused")
    with pytest.raises(MessageFailed, match="card_refused") as raised:
        added.wait(5)
    assert (raised.value.id, raised.value.reason, raised.value.dead_letter) == (added.id, "card_refused", added.id)
    assert isinstance(wait_all([added], on_failed="return")[0], MessageFailed)


@pytest.mark.parametrize(
    "end", [lambda number: cancel(number), lambda number: queue_purge(queue="default")], ids=["cancel", "purge"]
)
def test_a_message_that_was_taken_away_is_a_failure(end: Callable[[int], Any], run: Run) -> None:
    added = add()
    waiting = run(added.wait, timeout=30)
    begun(waiting)
    end(added.id)
    with pytest.raises(MessageFailed, match=r"cancelled|purged") as raised:
        waiting.result(10)
    assert raised.value.dead_letter is None


def test_a_redriven_message_goes_on_as_the_new_one(run: Run) -> None:
    added = add()
    discard([added.id])
    redrive([added.id])
    waiting = run(added.wait, timeout=30)
    begun(waiting)
    settle("at last")
    assert waiting.result(10) == "at last"


def test_a_message_of_the_own_transaction_is_refused() -> None:
    before = add()
    with transaction.atomic():
        own = add()
        with pytest.raises(ResultUnavailable, match=f"message {own.id} was enqueued in this transaction"):
            own.wait(30)
        with pytest.raises(ResultTimeout):
            before.wait(0.05)
        settle("seen")
        settle("seen")
        assert own.wait(0) == "seen", "it has ended, for this session"


def test_nothing_is_known_of_a_message_that_is_not_there_or_that_nothing_is_kept_of(run: Run) -> None:
    with pytest.raises(ResultUnavailable, match="nothing is known of message 4000000000"):
        wait_all([4_000_000_000], timeout=30)
    added = add()
    queue_set("default", archive="none")
    waiting = run(added.wait, timeout=30)
    begun(waiting)
    settle("lost")
    with pytest.raises(ResultUnavailable, match=f"nothing is known of message {added.id}"):
        waiting.result(10)


def test_an_answer_without_a_message_has_no_result() -> None:
    with pytest.raises(ResultUnavailable, match="not_found"):
        enqueue("work", channel="nobody", on_refused="return").wait()


def test_async_code_waits_too() -> None:
    async def story() -> list[Any]:
        first, second = await aenqueue("work"), await aenqueue("work")
        waiting = asyncio.gather(first.await_(30), await_all([second, first], timeout=30))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(lambda: (settle(1), settle(2), connection.close()))
        with pytest.raises(ResultTimeout):
            await (await aenqueue("work")).await_(0.05)
        return [*await waiting]

    add()
    settle()
    assert async_to_sync(story)() == [1, [2, 1]]


def test_all_who_wait_share_one_query(run: Run) -> None:
    add()
    settle()
    added = enqueue_many([NewMessage(handler="work") for _ in range(12)])
    waiting = [run(wait_all, [each], timeout=60) for each in added]
    begun(waiting[-1], 12)
    threads = [thread for thread in threading.enumerate() if thread.name == "pgqueue-results"]
    assert len(threads) == 1
    for _ in added:
        settle()
    assert [future.result(30) for future in waiting] == [[None]] * 12


def test_a_session_that_breaks_in_a_look_is_made_again(run: Run) -> None:
    added = add()
    waiting = run(added.wait, timeout=30)
    begun(waiting)
    others = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE pgqueue_message")

        def broken() -> bool:
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(f"SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) {others}")
            return bool(cursor.fetchone()[0])

        eventually(broken)
    settle("after all")
    assert waiting.result(20) == "after all"


def test_one_look_takes_one_query_while_nothing_has_ended() -> None:
    added = [add(), add()]
    with CaptureQueriesContext(connection) as queries:
        assert module.endings_of([each.id for each in added if each.id], "default") == {}
    assert len(queries) == 1


def test_a_wait_for_a_batch_ends_with_its_last_member(run: Run) -> None:
    add()
    settle()
    with Batch() as batch:
        first = enqueue("work")
        enqueue("work")
    waiting = run(batch.wait, timeout=timedelta(seconds=30))
    begun(waiting)
    [delivery] = dequeue()
    assert delivery.id == first.id
    dead_letter(delivery, reason="no")
    assert not waiting.done()
    settle()
    counts = waiting.result(10)
    assert (counts.total, counts.done, counts.lost) == (2, 1, {"dead": 1})
    assert async_to_sync(batch.await_)(timeout=0) == counts
    assert wait_all([first.id], on_failed="return")[0].reason == "no"


def open_for_a_while() -> Batch:
    with Batch() as batch:
        enqueue("work")
    return batch


def test_a_wait_for_a_batch_that_is_not_over_or_not_there() -> None:
    add()
    batch = open_for_a_while()
    with pytest.raises(ResultTimeout, match=rf"^batch {batch.id} was not over in time$"):
        batch.wait(0.05)
    with pytest.raises(ResultTimeout, match=rf"^batch {batch.id} was not over in time$"):
        async_to_sync(batch.await_)(timeout=0.05)
    with pytest.raises(ResultUnavailable, match="nothing is known of batch 123456"):
        Batch.of_id(123456).wait(1)
    with transaction.atomic(), pytest.raises(ResultUnavailable, match="nothing is known of batch"):
        open_for_a_while().wait(10)
