"""Wait for messages to end, and read what they brought. All who wait in a process share one query."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from datetime import timedelta
from typing import Any, Literal, Protocol

from asgiref.sync import sync_to_async
from django.db import Error, connections

from django_pgqueue.backoff import pause
from django_pgqueue.delivery import Enqueued
from django_pgqueue.exceptions import MessageFailed, ResultTimeout, ResultUnavailable
from django_pgqueue.lifecycle.sealing import open_row
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from django_pgqueue.sql.call import alias, call

# Seconds between two looks at all messages that are waited for: a tenth of what the newest has been waited for, within
# these bounds.
SHORTEST = 0.01
LONGEST = 0.25

Timeout = timedelta | float | None
OnFailed = Literal["raise", "return"]


class TaskResultLike(Protocol):
    """Describe a result of ``django.tasks``: its id is that of the message, as text."""

    @property
    def id(self) -> str: ...


Awaited = int | Enqueued | TaskResultLike
# Where a message has ended; True: a batch is over; None: nothing of it was kept.
Ending = ArchivedMessage | DeadLetter | Literal[True] | None
# The number of a batch is its id with a minus. Only the app has batches, so the table exists.
BATCHES = "SELECT -b.id, b.finished_at IS NOT NULL FROM pgqueue_batch AS b WHERE b.id = ANY (%s::bigint[])"


def wait_all(
    messages: Iterable[Awaited], *, timeout: Timeout = None, on_failed: OnFailed = "raise", using: str | None = None
) -> list[Any]:
    """Wait until all messages have ended. Returns their results, in the order given.

    ``messages``: answers of :func:`enqueue`, ids, or results of tasks. The result of a message is what its handler has
    returned in ``Complete(result)``, or its task; None without one, and where only the outcome is archived. A message
    that was redriven goes on as the new one. ``timeout``: for all together, a timedelta or seconds; None: for ever.
    ``on_failed``: "raise" raises the first failure; "return" puts the MessageFailed in the place of the result.
    ``using``: database alias; default: the queue's.

    Raises ResultTimeout, MessageFailed for a message that was dead-lettered, cancelled, purged or dropped, and
    ResultUnavailable for one of which nothing is known, which was never enqueued, or whose transaction is still open,
    because it would wait for itself.
    """
    ends, (ids, database) = deadline(timeout), (list(map(id_of, messages)), alias(using))
    endings = endings_of(ids, database)
    pending = {number: watcher(database).watch(number) for number in {*ids} - {*endings}}
    try:
        for number, future in pending.items():
            endings[number] = future.result(None if ends is None else max(ends - time.monotonic(), 0))
    except FutureTimeout:
        raise late(ids, endings) from None
    finally:
        for number, future in pending.items():
            watcher(database).forget(number, future)
    return [value_of(number, endings[number], on_failed, database) for number in ids]


async def await_all(
    messages: Iterable[Awaited],
    *,
    timeout: Timeout = None,  # noqa: ASYNC109  (as the sync one)
    on_failed: OnFailed = "raise",
    using: str | None = None,
) -> list[Any]:
    """Wait as :func:`wait_all` does, without a thread of its own."""
    ends, (ids, database) = deadline(timeout), (list(map(id_of, messages)), alias(using))
    endings = await sync_to_async(endings_of)(ids, database)
    pending = {number: watcher(database).watch(number) for number in {*ids} - {*endings}}
    try:
        for number, future in pending.items():
            left = None if ends is None else max(ends - time.monotonic(), 0)
            endings[number] = await asyncio.wait_for(asyncio.wrap_future(future), left)
    except TimeoutError:
        raise late(ids, endings) from None
    finally:
        for number, future in pending.items():
            watcher(database).forget(number, future)
    return await sync_to_async(lambda: [value_of(number, endings[number], on_failed, database) for number in ids])()


def id_of(message: Awaited) -> int:
    """Return the id of a message. Raises ResultUnavailable for an answer that has none."""
    if isinstance(message, int):
        return message
    if message.id is None:
        raise ResultUnavailable(f"nothing was enqueued ({getattr(message, 'outcome', 'no id')})")
    return int(message.id)


def deadline(timeout: Timeout) -> float | None:
    """Return when a wait ends, by the monotonic clock."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    return None if seconds is None else time.monotonic() + seconds


def late(ids: Sequence[int], endings: dict[int, Ending]) -> ResultTimeout:
    """Return the error that says which messages have not ended in time."""
    left = sorted({*ids} - {*endings})
    return ResultTimeout(f"{len(left)} of {len({*ids})} messages have not ended in time: {left[:10]}", ids=tuple(left))


def value_of(number: int, ending: Ending, on_failed: OnFailed, using: str) -> Any:
    """Return the result of a message that has ended, or raise, or return, its failure; None for a batch."""
    if ending is True:
        return None
    if ending is None and number < 0:
        raise ResultUnavailable(
            f"nothing is known of batch {-number}",
            hint="Wait after its block, and after the transaction around it. Retention may have deleted it.",
        )
    if ending is None:
        if Message.objects.using(using).filter(pk=number).exists():
            raise ResultUnavailable(
                f"message {number} was enqueued in this transaction: nobody can work on it before it commits",
                hint="Wait after the atomic block; in a TestCase, drain() first.",
            )
        raise ResultUnavailable(
            f"nothing is known of message {number}",
            hint="It never existed, its archive is none, retention has dropped it, or its transaction is still open.",
        )
    if isinstance(ending, ArchivedMessage) and ending.outcome in ("completed", "popped"):
        return open_row(ending, using).result
    failure = failure_of(number, ending)
    if on_failed == "raise":
        raise failure
    return failure


def failure_of(number: int, ending: ArchivedMessage | DeadLetter) -> MessageFailed:
    """Return the error that stands for a message that has ended without a result."""
    if isinstance(ending, ArchivedMessage):
        return MessageFailed(f"message {number} was {ending.outcome}", id=number, reason=ending.outcome)
    errors = ending.errors if isinstance(ending.errors, list) else []
    last = errors[-1] if errors and isinstance(errors[-1], dict) else {}
    said = f": {last['type']}" if "type" in last else ""
    return MessageFailed(
        f"message {number} is a dead letter ({ending.reason}{said})",
        id=number,
        reason=ending.reason,
        dead_letter=ending.pk,
    )


def endings_of(ids: Iterable[int], using: str) -> dict[int, Ending]:
    """Return how messages have ended, of those that have: redriven ones by the message as which they go on.

    The tables are read in the order in which a message moves, so that one that moves meanwhile is not missed.
    """
    now_as = {number: number for number in ids if number >= 0}
    endings: dict[int, Ending] = {}
    if batches := [number for number in ids if number < 0]:
        over = dict(call(using, BATCHES, [[-number for number in batches]]))
        endings |= {number: True if number in over else None for number in batches if over.get(number, True)}
    while now_as:
        asked = {*now_as.values()}
        live = {*Message.objects.using(using).filter(pk__in=asked).values_list("pk", flat=True)}
        gone = asked - live
        ended: dict[int, ArchivedMessage | DeadLetter] = {}
        for model in (ArchivedMessage, DeadLetter):
            if left := gone - {*ended}:
                ended |= model.objects.using(using).defer("payload", "body").in_bulk(left)
        redriven = {}
        for number, current in now_as.items():
            found = ended.get(current)
            if isinstance(found, DeadLetter) and found.redriven_to is not None:
                redriven[number] = found.redriven_to
            elif current not in live:
                endings[number] = found
        now_as = redriven
    return endings


class Watcher:
    """Look in one thread, by one query, at all messages of a database that are waited for.

    The thread and its session are there while someone waits.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._changed = threading.Condition()
        self._futures: defaultdict[int, set[Future[Ending]]] = defaultdict(set)
        self._newest = 0.0
        self._thread: threading.Thread | None = None

    def watch(self, number: int) -> Future[Ending]:
        """Return a future of how the message ends."""
        future: Future[Ending] = Future()
        with self._changed:
            self._futures[number].add(future)
            self._newest = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pgqueue-results", daemon=True)
                self._thread.start()
            self._changed.notify()
        return future

    def forget(self, number: int, future: Future[Ending]) -> None:
        """Wait no more for a message. Its future may be done."""
        with self._changed:
            waiting = self._futures.get(number, set())
            waiting.discard(future)
            if not waiting:
                self._futures.pop(number, None)
                self._changed.notify()

    def _run(self) -> None:
        failures = 0
        try:
            while ids := self._asked():
                try:
                    connections[self._using].close_if_unusable_or_obsolete()
                    self._tell(endings_of(ids, self._using))
                    failures = 0
                    wait = min(LONGEST, max(SHORTEST, (time.monotonic() - self._newest) / 10))
                except Error:
                    # Those who wait have timeouts; the queue's own callers report an outage.
                    wait = pause(failures)
                    failures += 1
                with self._changed:
                    self._changed.wait(wait)
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            connections[self._using].close()

    def _asked(self) -> list[int]:
        """Return the ids that are waited for. Without any, the thread is not this watcher's any more."""
        with self._changed:
            if not self._futures:
                self._thread = None
            return [*self._futures]

    def _tell(self, endings: dict[int, Ending]) -> None:
        with self._changed:
            told = [(future, end) for number, end in endings.items() for future in self._futures.pop(number, ())]
        for future, end in told:
            if future.set_running_or_notify_cancel():
                future.set_result(end)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._thread = None
            left = [future for each in self._futures.values() for future in each]
            self._futures.clear()
        for future in left:
            if future.set_running_or_notify_cancel():
                future.set_exception(error)


_watchers: dict[str, Watcher] = {}
_making = threading.Lock()


def watcher(using: str) -> Watcher:
    """Return the process's watcher of a database."""
    with _making:
        return _watchers.setdefault(using, Watcher(using))


# A child of fork has none of its parent's threads.
os.register_at_fork(after_in_child=_watchers.clear)
