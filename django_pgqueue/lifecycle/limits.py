"""Set, pause, resume and drop shared limits; pause and resume handlers, which is done by such a limit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from django_pgqueue.handlers import AnyHandler
from django_pgqueue.lifecycle.arguments import checked_text, handler_name, pause_of, settings_as_json
from django_pgqueue.outcomes import KEEP, Keep
from django_pgqueue.sql.call import ask, call

LIMIT_SET = "SELECT id, refusal FROM pgqueue_limit_set(%s::text, %s::jsonb)"


def limit_set(
    name: str,
    *,
    max_concurrency: int | Keep | None = KEEP,
    max_cost: int | Keep | None = KEEP,
    rate: str | Keep | None = KEEP,
    release_interval: timedelta | Keep | None = KEEP,
    release_burst: int | Keep = KEEP,
    handlers: Iterable[str | AnyHandler] | Keep = KEEP,
    per: Literal["channel"] | Keep | None = KEEP,
    forgive: bool = False,
    using: str | None = None,
) -> int:
    """Create a shared limit, or change the settings that are given of an existing one.

    Messages of any channel and queue may have it: those that were enqueued with ``limits=[name]``, and all messages of
    its handlers. A setting that is not given stays as it is; None lifts it. It holds from the next dequeue on, for all
    workers together, and counts messages that are leased already.

    ``name``: 1 to 200 characters. ``max_concurrency``: messages that may be leased at the same time. ``max_cost``: the
    sum of the costs of the leased messages; a message that costs more runs alone. ``rate``: tokens in a time, such as
    ``"100/s burst 50"``; a message takes its cost, which is 1 by default. It sets both ``release_interval``, the time
    in which one token comes (a timedelta), and ``release_burst``, the tokens that may be saved up (default 1).

    ``handlers``: names, or decorated functions, all of whose messages have the limit; they replace those that were set
    before. ``per``: "channel": each channel has the limit for itself; None: all share it. Another ``per`` than before
    starts with a full rate. ``forgive``: True ends the debt of the rate, which messages have left that cost more than
    its burst, in all channels. ``using``: database alias; default: the queue's.

    Returns the id of the limit. Raises InvalidMessage.
    """
    settings = settings_as_json(
        rate=rate, max_concurrency=max_concurrency, max_cost=max_cost, release_interval=release_interval,
        release_burst=release_burst, handlers=handlers, per=per, forgive=forgive or KEEP,
    )  # fmt: skip
    return int(ask(using, LIMIT_SET, (checked_text(name, "name"), settings))[0][0])


LIMIT_PAUSE = "SELECT outcome, refusal FROM pgqueue_limit_pause(%s::text, %s::text, %s::timestamptz)"


def limit_pause(name: str, *, reason: str = "", until: datetime | None = None, using: str | None = None) -> None:
    """Stop the deliveries of all messages that have a shared limit. Messages that run now are not interrupted.

    Messages that wait for it block no others of their channels, and no attempt is counted.

    ``name``: the limit's. ``reason``: shown in the admin and by explain. ``until``: an aware datetime at which the
    sweep resumes it; without it the pause lasts until :func:`limit_resume`. ``using``: database alias; default: the
    queue's.

    Raises InvalidMessage for an unknown limit, and for a time in the past.
    """
    ask(using, LIMIT_PAUSE, (checked_text(name, "name"), *pause_of(reason, until)))


def limit_resume(name: str, *, using: str | None = None) -> None:
    """End the pause of a shared limit, so that its messages are delivered again.

    ``name``: the limit's. ``using``: database alias; default: the queue's.

    Raises InvalidMessage for an unknown limit.
    """
    ask(using, "SELECT outcome, refusal FROM pgqueue_limit_resume(%s::text)", (checked_text(name, "name"),))


def limit_drop(name: str, *, using: str | None = None) -> bool:
    """Delete a shared limit. Messages that wait for it run without it.

    ``name``: the limit's. ``using``: database alias; default: the queue's. A limit that code or the setting LIMITS
    declares comes back when a worker starts: remove the declaration first.

    Returns whether there was a limit of this name. Raises InvalidMessage.
    """
    [(outcome,)] = call(using, "SELECT pgqueue_limit_drop(%s::text)", (checked_text(name, "name"),))
    return bool(outcome == "dropped")


HANDLER_PAUSE = "SELECT outcome, refusal FROM pgqueue_handler_pause(%s::text, %s::text, %s::timestamptz)"


def handler_pause(
    handler: str | AnyHandler, *, reason: str = "", until: datetime | None = None, using: str | None = None
) -> None:
    """Stop the deliveries of all messages of a handler, in every channel and queue. Enqueue goes on, and messages that
    run now are not interrupted.

    Messages that wait block no others of their channels, and no attempt is counted. The pause is that of a shared
    limit, which is called ``handler`` and the handler's name, and stays after :func:`handler_resume`.

    ``handler``: its name, or the decorated function. ``reason``: shown in the admin and by explain. ``until``: an aware
    datetime at which the sweep resumes it; without it the pause lasts until :func:`handler_resume`. ``using``: database
    alias; default: the queue's.

    Raises InvalidMessage for a time in the past.
    """
    ask(using, HANDLER_PAUSE, (handler_name(handler), *pause_of(reason, until)))


def handler_resume(handler: str | AnyHandler, *, using: str | None = None) -> None:
    """End the pause of a handler, so that its messages are delivered again. A handler that is not paused stays so.

    ``handler``: its name, or the decorated function. ``using``: database alias; default: the queue's.

    Raises InvalidMessage.
    """
    call(using, "SELECT pgqueue_handler_resume(%s::text)", (handler_name(handler),))
