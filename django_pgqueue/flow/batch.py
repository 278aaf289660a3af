"""Open batches of messages, add members to them, and look at them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction

import django_pgqueue
from django_pgqueue import handlers
from django_pgqueue.conf import settings
from django_pgqueue.delivery import NO_PAYLOAD, Delivery, Enqueued, NewMessage
from django_pgqueue.exceptions import InvalidMessage, ResultTimeout
from django_pgqueue.handlers import AnyHandler
from django_pgqueue.lifecycle.enqueue import enqueue_many, require_flow
from django_pgqueue.lifecycle.new_messages import bind, by_name
from django_pgqueue.lifecycle.sealing import seal_new
from django_pgqueue.sql.call import alias, call, refusal_error

Follower = str | AnyHandler | NewMessage
COUNTS = "SELECT total, outstanding, lost::text, finished_at FROM pgqueue_batch_counts(ARRAY[%s::bigint])"


@dataclass(frozen=True, slots=True)
class Counts:
    """Hold the numbers of a batch's members.

    ``lost``: those that ended without being completed, by outcome. ``finished_at``: when the batch ended, or None.
    """

    total: int
    outstanding: int
    lost: Mapping[str, int]
    finished_at: datetime | None = field(default=None, compare=False)

    @property
    def done(self) -> int:
        """Return how many members were completed."""
        return self.total - self.outstanding - sum(self.lost.values())


class Batch:
    """Open a batch: each message that is enqueued in the block on its connection becomes a member.

    ``on_done``: the message that follows when all members were completed: a handler, or a NewMessage for more options;
    ``on_dead``: when a member was dead-lettered, cancelled, dropped, purged or erased. None: nothing follows.
    ``payload``: of a follower that is given as a handler. Followers have the id of the batch in their header ``batch``.
    ``using``: database alias; default: the queue's.

    Raises ImproperlyConfigured if the app is not in INSTALLED_APPS, and InvalidMessage for a follower that no batch may
    have.

    The block is a transaction, or a savepoint of the caller's: if it raises, nothing is left of the batch.
    """

    id: int

    def __init__(
        self,
        *,
        on_done: Follower | None = None,
        on_dead: Follower | None = None,
        payload: Any = NO_PAYLOAD,
        using: str | None = None,
    ) -> None:
        require_flow("Batch")
        self.using = alias(using)
        self.followers = [as_request(follower, payload, self.using) for follower in (on_done, on_dead)]
        self.block = transaction.atomic(using=self.using)

    @classmethod
    def of_id(cls, id: int, *, using: str | None = None) -> Batch:  # noqa: A002  (as everywhere)
        """Return the batch with this id, to look at it or to add members."""
        batch = cls(using=using)
        batch.id = id
        return batch

    def __enter__(self) -> Batch:
        self.block.__enter__()
        try:
            [[self.id]] = call(self.using, "SELECT pgqueue_batch_open(%s::jsonb, %s::jsonb)", self.followers)
        except BaseException as error:
            self.block.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                call(self.using, "SELECT pgqueue_batch_seal(%s)", [self.id])
        except BaseException as late:
            self.block.__exit__(type(late), late, late.__traceback__)
            raise
        self.block.__exit__(kind, error, traceback)

    def add(self, *messages: NewMessage) -> list[Enqueued]:
        """Enqueue messages as members, from a member that is not settled yet. Returns the answers.

        ``messages``: as :func:`django_pgqueue.enqueue_many` takes them. Raises InvalidMessage if the batch is over.
        """
        with transaction.atomic(using=self.using):
            [[before]] = call(self.using, "SELECT coalesce(current_setting('pgqueue.batch', true), '')")
            [[refusal]] = call(self.using, "SELECT pgqueue_batch_enter(%s)::text", [self.id])
            if refusal is not None:
                raise refusal_error(refusal)
            answers = enqueue_many(messages, using=self.using)
            call(self.using, "SELECT set_config('pgqueue.batch', %s, true)", [before])
            return answers

    def counts(self) -> Counts:
        """Return the numbers of its members. Raises LookupError without such a batch."""
        rows = call(self.using, COUNTS, [self.id])
        if not rows:
            raise LookupError(f"there is no batch {self.id}")
        [(total, outstanding, lost, finished_at)] = rows
        return Counts(total, outstanding, json.loads(lost), finished_at)

    def wait(self, timeout: timedelta | float | None = None) -> Counts:
        """Wait until the batch is over. Returns the numbers of its members.

        ``timeout``: a timedelta or seconds; None: for ever. Raises ResultTimeout, and ResultUnavailable for a batch of
        which nothing is known, or whose transaction is still open.
        """
        try:
            django_pgqueue.wait_all([-self.id], timeout=timeout, using=self.using)
        except ResultTimeout:
            raise self._late() from None
        return self.counts()

    async def await_(self, timeout: timedelta | float | None = None) -> Counts:  # noqa: ASYNC109  (as the sync one)
        """Wait as ``wait`` does, without a thread of its own."""
        try:
            await django_pgqueue.await_all([-self.id], timeout=timeout, using=self.using)
        except ResultTimeout:
            raise self._late() from None
        return await sync_to_async(self.counts)()

    def _late(self) -> ResultTimeout:
        return ResultTimeout(f"batch {self.id} was not over in time", ids=(self.id,))

    @property
    def finished(self) -> bool:
        """Return whether the batch is over. Raises LookupError without such a batch."""
        return self.counts().finished_at is not None


def batch_of(delivery: Delivery[Any], *, using: str | None = None) -> Batch | None:
    """Return the batch of a delivered message, or the batch that it follows; None if there is none."""
    if isinstance(delivery.headers, Mapping) and "batch" in delivery.headers:
        return Batch.of_id(delivery.headers["batch"], using=using)
    rows = call(alias(using), "SELECT abs(flow) FROM pgqueue_message WHERE id = %s AND flow <> 0", [delivery.id])
    return Batch.of_id(rows[0][0], using=using) if rows else None


def as_request(follower: Follower | None, payload: Any, using: str) -> str | None:
    """Return the follower as the JSON that pgqueue_batch_open takes. Raises InvalidMessage."""
    if follower is None:
        return None
    if not isinstance(follower, NewMessage):
        given = {} if payload is NO_PAYLOAD else payload
        follower = NewMessage(handler=handlers.name_of(follower), payload=given)
    refused = (follower.dequeue_at, follower.delay, follower.dedupe_key, follower.unique, follower.after)
    if any(value is not None for value in refused):
        raise InvalidMessage("what follows a batch has no dequeue_at, delay, dedupe_key, unique or after")
    [bound] = seal_new([bind(by_name(replace(follower)))], using)
    request = bound._asdict()
    for name in ("payload", "headers"):
        request[name] = None if request[name] is None else json.loads(request[name])
    if bound.body is not None:
        request["body"] = "\\x" + bound.body.hex()
    for name in ("backoff", "backoff_longest"):
        if request[name] is not None:
            request[name] = f"{request[name].total_seconds()} seconds"
    return json.dumps({**request, "create_channel": settings.AUTO_CREATE_CHANNELS})
