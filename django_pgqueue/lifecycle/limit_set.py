"""limit_set: create a shared limit, or change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.handler_types import AnyHandler
from django_pgqueue.handlers import name_of
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import boolean, checked_duration, checked_text, checked_whole
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.outcomes import KEEP, Keep
from django_pgqueue.rates import parse_rate
from django_pgqueue.sql.call import ask

SQL = "SELECT id, refusal FROM pgqueue_limit_set(%s::text, %s::jsonb)"


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
    its burst, in all channels.
    ``using``: database alias; default: the queue's.

    Returns the id of the limit. Raises InvalidMessage.
    """
    if not isinstance(rate, Keep):
        if not (isinstance(release_interval, Keep) and isinstance(release_burst, Keep)):
            raise InvalidMessage("rate stands for release_interval and release_burst", hint="Give it, or the two.")
        release_interval, release_burst = (None, 1) if rate is None else parse_rate(rate)
    given = {
        "max_concurrency": max_concurrency,
        "max_cost": max_cost,
        "release_interval": release_interval,
        "release_burst": release_burst,
        "handlers": handlers,
        "per": per,
        "forgive": forgive or KEEP,
    }
    settings = {what: setting_as_json(what, value) for what, value in given.items() if value is not KEEP}
    id: int = ask(alias(using), SQL, (checked_text(name, "name"), to_json(settings, "settings")))[0][0]  # noqa: A001  (as everywhere)
    return id


def setting_as_json(what: str, value: Any) -> Any:
    """Return the value of a setting as JSON. Raises InvalidMessage for a value of another type."""
    if what == "handlers":
        return handler_names(value)
    if what == "forgive":
        return boolean(value, what)
    if value is None and what != "release_burst":
        return None
    if what == "per":
        return checked_text(value, what)
    if what == "release_interval":
        checked_duration(value, what)
        return f"{value.total_seconds():f} seconds"
    return checked_whole(value, what)


def handler_names(handlers: Any) -> list[str]:
    """Return the names of handlers, or of decorated functions. Raises InvalidMessage for anything else."""
    if isinstance(handlers, str | bytes | Mapping) or not isinstance(handlers, Iterable):
        raise InvalidMessage(f"handlers are not a list but {type(handlers).__name__}", hint="Give a list of names.")
    return [checked_text(name_of(handler), "handler") for handler in handlers]
