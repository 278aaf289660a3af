"""Enqueue chains of messages, and look at what a message has waited for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from django_pgqueue import codecs
from django_pgqueue.delivery import Delivery, Enqueued, NewMessage, OnDead
from django_pgqueue.handlers import AnyHandler
from django_pgqueue.jsonb import from_json
from django_pgqueue.lifecycle.enqueue import enqueue_many
from django_pgqueue.lifecycle.sealing import place
from django_pgqueue.sql.call import alias, call

RESULTS = "SELECT id, handler, outcome, result::text, queue, channel FROM pgqueue_after_results(%s::bigint, %s::uuid)"


@dataclass(frozen=True, slots=True)
class Ended:
    """Hold how a message ended that another one has waited for.

    ``id``: its id; that of the new message, if a dead letter was redriven. ``outcome``: ``completed``, ``popped``,
    ``cancelled``, ``dropped``, ``purged`` or ``dead``; None: nothing is known of it any more. ``result``: of a
    completed one, or None.
    """

    id: int
    handler: str | None
    outcome: str | None
    result: Any


def chain(
    *messages: str | AnyHandler | NewMessage, on_dead: OnDead = "cancel", using: str | None = None
) -> list[Enqueued]:
    """Enqueue messages of which each waits for the one before it, all or none. Returns the answers.

    ``messages``: handlers, or NewMessage for payloads and options; the first one may have ``after``. ``on_dead``: as in
    :func:`django_pgqueue.enqueue`, for those that have none of their own. ``using``: database alias; default: the
    queue's.

    Raises what :func:`django_pgqueue.enqueue` raises.
    """
    answers: list[Enqueued] = []
    with transaction.atomic(using=alias(using)):
        for given in messages:
            message = given if isinstance(given, NewMessage) else NewMessage(handler=given)
            if answers:
                message = replace(message, after=[*(message.after or ()), answers[-1]])
            if message.after is not None:
                message = replace(message, on_dead=message.on_dead or on_dead)
            answers += enqueue_many([message], using=using)
    return answers


def results_of(delivery: Delivery[Any], *, using: str | None = None) -> list[Ended]:
    """Return how the messages ended that this one has waited for, in the order of ``after``.

    Raises LeaseLost if the delivery has no lease any more, and what a codec raises.
    """
    database = alias(using)
    return [
        Ended(id, handler, outcome, codecs.opened(from_json(result), place(queue or "", channel or "", database)))
        for id, handler, outcome, result, queue, channel in call(database, RESULTS, [delivery.id, delivery.token])  # noqa: A001
    ]
