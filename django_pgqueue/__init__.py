"""A message queue for Django on the PostgreSQL it already runs.

The names of the public API are resolved when they are first used: importing this package imports no Django, so that
Spark workers can. Type checkers and editors read the imports below, and a test compares the two lists.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_pgqueue.backoff import Constant, Exponential
    from django_pgqueue.breakers import Breaker
    from django_pgqueue.delivery import Delivery, Enqueued, NewMessage
    from django_pgqueue.handlers import handler
    from django_pgqueue.lifecycle.breakers import breaker_close, breaker_open, breaker_set
    from django_pgqueue.lifecycle.channels import (
        channel_erase,
        channel_pause,
        channel_purge,
        channel_release,
        channel_resume,
        channel_set,
    )
    from django_pgqueue.lifecycle.dead_letters import delete_dead, redrive
    from django_pgqueue.lifecycle.dequeue import dequeue, dequeue_matching, peek, pop
    from django_pgqueue.lifecycle.enqueue import aenqueue, enqueue, enqueue_many
    from django_pgqueue.lifecycle.figures import explain_channel, explain_message, metrics
    from django_pgqueue.lifecycle.limits import (
        handler_pause,
        handler_resume,
        limit_drop,
        limit_pause,
        limit_resume,
        limit_set,
    )
    from django_pgqueue.lifecycle.messages import cancel, discard, edit, lease_release, reschedule
    from django_pgqueue.lifecycle.queues import queue_drop, queue_pause, queue_purge, queue_resume, queue_set
    from django_pgqueue.lifecycle.schedules import schedule_run
    from django_pgqueue.lifecycle.settle import complete, dead_letter, defer, heartbeat, retry, spend
    from django_pgqueue.lifecycle.upkeep import measure, prune, sweep
    from django_pgqueue.limits import Limit
    from django_pgqueue.outcomes import Cancelled, Complete, Defer, Reject, Retry
    from django_pgqueue.results import await_all, wait_all
    from django_pgqueue.schedules import schedule
    from django_pgqueue.unique import Debounce, Unique

__version__ = "0.1.0"

__all__ = [
    "Breaker",
    "Cancelled",
    "Complete",
    "Constant",
    "Debounce",
    "Defer",
    "Delivery",
    "Enqueued",
    "Exponential",
    "Limit",
    "NewMessage",
    "Reject",
    "Retry",
    "Unique",
    "aenqueue",
    "await_all",
    "breaker_close",
    "breaker_open",
    "breaker_set",
    "cancel",
    "channel_erase",
    "channel_pause",
    "channel_purge",
    "channel_release",
    "channel_resume",
    "channel_set",
    "complete",
    "dead_letter",
    "defer",
    "delete_dead",
    "dequeue",
    "dequeue_matching",
    "discard",
    "edit",
    "enqueue",
    "enqueue_many",
    "explain_channel",
    "explain_message",
    "handler",
    "handler_pause",
    "handler_resume",
    "heartbeat",
    "lease_release",
    "limit_drop",
    "limit_pause",
    "limit_resume",
    "limit_set",
    "measure",
    "metrics",
    "peek",
    "pop",
    "prune",
    "queue_drop",
    "queue_pause",
    "queue_purge",
    "queue_resume",
    "queue_set",
    "redrive",
    "reschedule",
    "retry",
    "schedule",
    "schedule_run",
    "spend",
    "sweep",
    "wait_all",
]

_HOMES = {
    "backoff": "Constant Exponential",
    "breakers": "Breaker",
    "delivery": "Delivery Enqueued NewMessage",
    "handlers": "handler",
    "lifecycle.breakers": "breaker_close breaker_open breaker_set",
    "lifecycle.channels": "channel_erase channel_pause channel_purge channel_release channel_resume channel_set",
    "lifecycle.dead_letters": "delete_dead redrive",
    "lifecycle.dequeue": "dequeue dequeue_matching peek pop",
    "lifecycle.enqueue": "aenqueue enqueue enqueue_many",
    "lifecycle.figures": "explain_channel explain_message metrics",
    "lifecycle.limits": "handler_pause handler_resume limit_drop limit_pause limit_resume limit_set",
    "lifecycle.messages": "cancel discard edit lease_release reschedule",
    "lifecycle.queues": "queue_drop queue_pause queue_purge queue_resume queue_set",
    "lifecycle.schedules": "schedule_run",
    "lifecycle.settle": "complete dead_letter defer heartbeat retry spend",
    "lifecycle.upkeep": "measure prune sweep",
    "limits": "Limit",
    "outcomes": "Cancelled Complete Defer Reject Retry",
    "results": "await_all wait_all",
    "schedules": "schedule",
    "unique": "Debounce Unique",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME_OF]
