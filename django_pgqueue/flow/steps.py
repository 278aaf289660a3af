"""Keep what the steps of a handler have returned, so that a later delivery goes on after them."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from django_pgqueue import codecs, handlers
from django_pgqueue.codecs import NOWHERE
from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.exceptions import EventTimeout, HandlerError, InvalidMessage, LeaseLost
from django_pgqueue.jsonb import from_json, to_json
from django_pgqueue.lifecycle.arguments import checked_text
from django_pgqueue.lifecycle.enqueue import require_flow
from django_pgqueue.lifecycle.sealing import event_text, place_of, seal
from django_pgqueue.outcomes import Pause, Reject
from django_pgqueue.sql.call import alias, call

PAUSE_SECONDS = 1.0
READ = "SELECT kind, name, value::text FROM pgqueue_steps(%s::bigint, %s::uuid)"
KEEP = "SELECT pgqueue_step_keep(%s::bigint, %s::uuid, %s::text, %s::text, %s::jsonb)"
PAUSE = """
SELECT id, outcome FROM pgqueue_step_pause(
    %s::bigint, %s::uuid, %s::text, %s::text, %s::interval, %s::timestamptz, %s::boolean)
"""
EVENT = "SELECT e::text FROM pgqueue_step_event(%s::bigint, %s::uuid, %s::text) AS e"
NOTIFY = "SELECT pgqueue_notify_event(%s::text, %s::jsonb)"
A_YEAR = timedelta(days=365)


class StepPause(Pause):
    """Give the message back for a sleep, or for an event. ``time``: how long at most, or until when."""

    __match_args__ = ("kind", "name", "time")

    def __init__(self, kind: Literal["sleep", "wait"], name: str, time: timedelta | datetime) -> None:
        if not isinstance(time, datetime | timedelta):
            raise ValueError(f"a pause takes a timedelta or an aware datetime, not {type(time).__name__}")
        until, delay = (time, None) if isinstance(time, datetime) else (None, time)
        super().__init__(until, delay)
        if kind == "wait":
            # It has no time of its own: in a test, ``drain`` goes on with it when the event comes.
            self.until = self.delay = None
        self.kind, self.name, self.time = kind, name, time

    def settle(self, leased: Leased, *, skip_lost: bool, using: str) -> dict[int, str]:
        """Keep that the message pauses, and give it back, both or neither."""
        delay, until = (None, self.time) if isinstance(self.time, datetime) else (self.time, None)
        return dict(call(using, PAUSE, [leased.id, leased.token, self.kind, self.name, delay, until, skip_lost]))


class Steps:
    """Run the steps of one delivery: those that a former one has kept return what is kept.

    Made by :func:`steps_of`. A name may be used once in a delivery; names have up to 200 characters.
    """

    def __init__(self, delivery: Delivery[Any], using: str) -> None:
        self.delivery = delivery
        self.using = using
        self._used: set[tuple[str, str]] = set()
        self._kept: dict[tuple[str, str], str | None] | None = None

    def __call__(
        self, name: str, function: Callable[..., Any], /, *arguments: Any, atomic: bool = False, **keywords: Any
    ) -> Any:
        """Call the function once for this message, and return what it returned, as JSON has it.

        ``atomic``: what the function writes to the queue's database is committed together with its result, or not at
        all. The other arguments are those of the function.

        Raises what the function raises: then nothing is kept. Raises LeaseLost, and HandlerError for a name that was
        used before, a coroutine function, or a transaction around the step. A result that cannot be kept raises
        InvalidMessage if the step is atomic; else the message becomes a dead letter (``step_not_kept``), because a
        retry would repeat the step.
        """
        if inspect.iscoroutinefunction(function):
            raise HandlerError(
                f"the step {name!r} is a coroutine function"
                + (", and no transaction can be around it" if atomic else ""),
                hint="Give a function; or in an async handler, without atomic, use asteps_of.",
            )
        kept, value = self.find("step", name)
        if kept:
            return value
        refuse_transaction(name, self.using)
        if atomic:
            with transaction.atomic(using=self.using):
                return self.write("step", name, function(*arguments, **keywords))
        return self.keep(name, function(*arguments, **keywords))

    def find(self, kind: str, name: str) -> tuple[bool, Any]:
        """Return whether something is kept by this name, and its value.

        Raises HandlerError for a second use, InvalidMessage for a name that is none, and LeaseLost.
        """
        if not 1 <= len(checked_text(name, "name of a step")) <= 200:
            raise InvalidMessage("the name of a step takes 1 to 200 characters")
        if (kind, name) in self._used:
            raise HandlerError(
                f"the {kind} {name!r} is there twice in one delivery", hint="Give each one a name of its own."
            )
        if self._kept is None:
            rows = call(self.using, READ, [self.delivery.id, self.delivery.token])
            self._kept = {(row[0], row[1]): row[2] for row in rows}
        self._used.add((kind, name))
        text = self._kept.get((kind, name))
        return (kind, name) in self._kept, codecs.opened(from_json(text), place_of(self.delivery, self.using))

    def keep(self, name: str, value: Any) -> Any:
        """Keep the result of a step, and return it as a later delivery will get it."""
        try:
            return self.write("step", name, value)
        except InvalidMessage as error:
            problem = f"the step {name!r} has run, and its result cannot be kept: {error}"
            raise Reject("step_not_kept", problem) from error

    def write(self, kind: str, name: str, value: Any) -> Any:
        """Write a value under the lease, and return it as JSON has it.

        Raises LeaseLost, InvalidMessage, and HandlerError for a coroutine, which nobody has awaited.
        """
        if inspect.iscoroutine(value):
            value.close()
            raise HandlerError(
                f"the {kind} {name!r} returned a coroutine, which has not run",
                hint="With asteps_of, give the step the coroutine function itself, and its arguments.",
            )
        text = to_json(value, f"result of the {kind} {name!r}") or "null"
        [stored] = seal([self.delivery], [text], self.using)
        call(self.using, KEEP, [self.delivery.id, self.delivery.token, kind, name, stored])
        return json.loads(text)

    def sleep(self, name: str, time: timedelta | datetime) -> None:
        """End the handler, and return from here in the delivery after ``time``: a timedelta, or an aware datetime.

        The message is scheduled meanwhile: it holds no slot, no lease and no place of a limit, and uses no attempt. A
        reschedule ends the sleep early.
        """
        if not self.find("sleep", name)[0]:
            raise StepPause("sleep", name, time)

    def wait(self, event: str, timeout: timedelta | datetime = A_YEAR) -> Any:
        """Return the payload of an event; end the handler until it comes, as ``sleep`` does.

        ``event``: a name of 1 to 200 characters, unique in the database; :func:`notify_event` gives it, before or
        after. ``timeout``: a timedelta, or an aware datetime. Raises EventTimeout if it did not come in time, in each
        later delivery, too; a reschedule ends the wait early.
        """
        self.find("wait", event)
        decided = call(self.using, EVENT, [self.delivery.id, self.delivery.token, event])
        if not decided:
            raise StepPause("wait", event, timeout)
        [(payload,)] = decided
        if payload is None:
            raise EventTimeout(f"the event {event!r} did not come in time")
        return codecs.opened(from_json(payload), NOWHERE)

    def cursor(self, name: str, start: Any = None) -> Cursor:
        """Return the place of a long loop: where a former delivery was, or ``start``. Use it in a ``with`` block."""
        kept, value = self.find("cursor", name)
        return Cursor(self, name, value if kept else start)


class Cursor:
    """Remember how far a loop is, for a later delivery. ``value``: where it is; any JSON."""

    def __init__(self, steps: Steps, name: str, value: Any) -> None:
        self.value = value
        self._steps = steps
        self._name = name
        self._waits = False
        self._next = time.monotonic() + PAUSE_SECONDS

    def set(self, value: Any) -> None:
        """Move the cursor, after the work up to ``value`` is done.

        In a transaction it is written at once, and commits with it. Else it is written once a second, and at the end of
        the ``with`` block, also when an exception ends it. Raises LeaseLost, if it writes.
        """
        if self.note(value) or connections[self._steps.using].in_atomic_block:
            self.save()

    def note(self, value: Any) -> bool:
        """Move the cursor without writing it. Returns whether it is time to write it."""
        self.value, self._waits = value, True
        return time.monotonic() >= self._next

    def save(self) -> None:
        """Write the cursor now. Raises LeaseLost."""
        self._waits = False
        self._steps.write("cursor", self._name, self.value)
        self._next = time.monotonic() + PAUSE_SECONDS

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._waits:
            try:
                self.save()
            except LeaseLost:
                # The one that ends the block says more.
                if kind is None:
                    raise


class AsyncSteps:
    """Run the steps of one delivery in an async handler, as :class:`Steps` does. Made by :func:`asteps_of`."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    async def __call__(
        self, name: str, function: Callable[..., Any], /, *arguments: Any, atomic: bool = False, **keywords: Any
    ) -> Any:
        """Call the function once for this message, as ``Steps`` does: a coroutine function, or with ``atomic`` another
        one, which runs in the thread of the ORM."""
        if atomic or not inspect.iscoroutinefunction(function):
            return await sync_to_async(self._steps)(name, function, *arguments, atomic=atomic, **keywords)
        kept, value = await sync_to_async(self._steps.find)("step", name)
        if kept:
            return value
        return await sync_to_async(self._steps.keep)(name, await function(*arguments, **keywords))

    async def sleep(self, name: str, time: timedelta | datetime) -> None:
        """End the handler, and return from here in the delivery after ``time``, as ``Steps.sleep`` does."""
        await sync_to_async(self._steps.sleep)(name, time)

    async def wait(self, event: str, timeout: timedelta | datetime = A_YEAR) -> Any:  # noqa: ASYNC109  (as the sync one)
        """Return the payload of an event; end the handler until it comes, as ``Steps.wait`` does."""
        return await sync_to_async(self._steps.wait)(event, timeout)

    async def cursor(self, name: str, start: Any = None) -> AsyncCursor:
        """Return the place of a long loop, as ``Steps.cursor`` does. Use it in an ``async with`` block."""
        return AsyncCursor(await sync_to_async(self._steps.cursor)(name, start))


class AsyncCursor:
    """Remember how far a loop of an async handler is. ``value``: where it is; any JSON."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    @property
    def value(self) -> Any:
        return self._cursor.value

    async def set(self, value: Any) -> None:
        """Move the cursor, as ``Cursor.set`` does. Raises LeaseLost, if it writes."""
        if self._cursor.note(value):
            await sync_to_async(self._cursor.save)()

    async def __aenter__(self) -> AsyncCursor:
        return self

    async def __aexit__(self, *error: Any) -> None:
        await sync_to_async(self._cursor.__exit__)(*error)


def refuse_transaction(name: str, using: str) -> None:
    """Raise HandlerError inside of a transaction, other than that of a test: it may take back what a step keeps."""
    try:
        with transaction.atomic(using=using, savepoint=False, durable=True):
            pass
    except RuntimeError as error:
        raise HandlerError(
            f"the step {name!r} is in a transaction, whose end may take it back",
            hint="Call it outside, or give it atomic=True and let it do the writes.",
        ) from error


def steps_of(delivery: Delivery[Any], *, using: str | None = None) -> Steps:
    """Return the steps of a delivered message. Call it once in a handler.

    ``using``: database alias; default: the queue's. Raises HandlerError in a handler with ``atomic=True``, whose
    transaction would take back what a step keeps.
    """
    require_flow("steps_of")
    known = handlers.find(delivery.handler)
    if known is not None and known.atomic:
        raise HandlerError(
            f"the handler {delivery.handler!r} has atomic=True and cannot have steps",
            hint="Leave it out, and give atomic=True to the steps that write.",
        )
    return Steps(delivery, alias(using))


def asteps_of(delivery: Delivery[Any], *, using: str | None = None) -> AsyncSteps:
    """Return the steps of a message that an async handler got, as :func:`steps_of` does."""
    return AsyncSteps(steps_of(delivery, using=using))


def notify_event(name: str, payload: Any = None, *, using: str | None = None) -> bool:
    """Give an event to the steps that wait for it, now or later, in the caller's transaction.

    ``name``: 1 to 200 characters, unique in the database: ``"parcel-7 sent"``. ``payload``: JSON. ``using``: database
    alias; default: the queue's.

    Returns whether it is the first of this name; another one changes nothing. It is kept for ARCHIVE_RETENTION. Raises
    InvalidMessage; and ChannelBusy, if another open transaction notifies this event for longer than ENQUEUE_WAIT.
    """
    require_flow("notify_event")
    [(first,)] = call(using, NOTIFY, [checked_text(name, "the name of the event"), event_text(payload)])
    return bool(first)


anotify_event = sync_to_async(notify_event)
"""``notify_event`` for async code."""
