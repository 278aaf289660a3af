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
    from django_pgqueue.lifecycle.breaker_close import breaker_close
    from django_pgqueue.lifecycle.breaker_open import breaker_open
    from django_pgqueue.lifecycle.breaker_set import breaker_set
    from django_pgqueue.lifecycle.cancel import cancel
    from django_pgqueue.lifecycle.channel_erase import channel_erase
    from django_pgqueue.lifecycle.channel_pause import channel_pause
    from django_pgqueue.lifecycle.channel_purge import channel_purge
    from django_pgqueue.lifecycle.channel_release import channel_release
    from django_pgqueue.lifecycle.channel_resume import channel_resume
    from django_pgqueue.lifecycle.channel_set import channel_set
    from django_pgqueue.lifecycle.complete import complete
    from django_pgqueue.lifecycle.dead_letter import dead_letter
    from django_pgqueue.lifecycle.defer import defer
    from django_pgqueue.lifecycle.delete_dead import delete_dead
    from django_pgqueue.lifecycle.dequeue import dequeue
    from django_pgqueue.lifecycle.dequeue_matching import dequeue_matching
    from django_pgqueue.lifecycle.discard import discard
    from django_pgqueue.lifecycle.edit import edit
    from django_pgqueue.lifecycle.enqueue import aenqueue, enqueue, enqueue_many
    from django_pgqueue.lifecycle.explain import explain_channel, explain_message
    from django_pgqueue.lifecycle.handler_pause import handler_pause
    from django_pgqueue.lifecycle.handler_resume import handler_resume
    from django_pgqueue.lifecycle.heartbeat import heartbeat
    from django_pgqueue.lifecycle.lease_release import lease_release
    from django_pgqueue.lifecycle.limit_drop import limit_drop
    from django_pgqueue.lifecycle.limit_pause import limit_pause
    from django_pgqueue.lifecycle.limit_resume import limit_resume
    from django_pgqueue.lifecycle.limit_set import limit_set
    from django_pgqueue.lifecycle.measure import measure
    from django_pgqueue.lifecycle.metrics import metrics
    from django_pgqueue.lifecycle.peek import peek
    from django_pgqueue.lifecycle.pop import pop
    from django_pgqueue.lifecycle.prune import prune
    from django_pgqueue.lifecycle.queue_drop import queue_drop
    from django_pgqueue.lifecycle.queue_pause import queue_pause
    from django_pgqueue.lifecycle.queue_purge import queue_purge
    from django_pgqueue.lifecycle.queue_resume import queue_resume
    from django_pgqueue.lifecycle.queue_set import queue_set
    from django_pgqueue.lifecycle.redrive import redrive
    from django_pgqueue.lifecycle.reschedule import reschedule
    from django_pgqueue.lifecycle.retry import retry
    from django_pgqueue.lifecycle.schedule_run import schedule_run
    from django_pgqueue.lifecycle.spend import spend
    from django_pgqueue.lifecycle.sweep import sweep
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
    "outcomes": ("Cancelled", "Complete", "Reject", "Defer", "Retry"),
    "backoff": ("Constant", "Exponential"),
    "delivery": ("Delivery", "Enqueued", "NewMessage"),
    "handlers": ("handler",),
    "schedules": ("schedule",),
    "limits": ("Limit",),
    "unique": ("Debounce", "Unique"),
    "breakers": ("Breaker",),
    "lifecycle.enqueue": ("aenqueue", "enqueue", "enqueue_many"),
    "lifecycle.dequeue": ("dequeue",),
    "lifecycle.dequeue_matching": ("dequeue_matching",),
    "lifecycle.heartbeat": ("heartbeat",),
    "lifecycle.complete": ("complete",),
    "lifecycle.defer": ("defer",),
    "lifecycle.retry": ("retry",),
    "lifecycle.dead_letter": ("dead_letter",),
    "lifecycle.redrive": ("redrive",),
    "lifecycle.pop": ("pop",),
    "lifecycle.peek": ("peek",),
    "lifecycle.cancel": ("cancel",),
    "lifecycle.reschedule": ("reschedule",),
    "lifecycle.lease_release": ("lease_release",),
    "lifecycle.discard": ("discard",),
    "lifecycle.delete_dead": ("delete_dead",),
    "lifecycle.edit": ("edit",),
    "lifecycle.explain": ("explain_channel", "explain_message"),
    "lifecycle.metrics": ("metrics",),
    "lifecycle.sweep": ("sweep",),
    "lifecycle.prune": ("prune",),
    "lifecycle.measure": ("measure",),
    "lifecycle.channel_set": ("channel_set",),
    "lifecycle.channel_purge": ("channel_purge",),
    "lifecycle.channel_release": ("channel_release",),
    "lifecycle.channel_pause": ("channel_pause",),
    "lifecycle.channel_erase": ("channel_erase",),
    "lifecycle.channel_resume": ("channel_resume",),
    "lifecycle.limit_set": ("limit_set",),
    "lifecycle.limit_drop": ("limit_drop",),
    "lifecycle.limit_pause": ("limit_pause",),
    "lifecycle.limit_resume": ("limit_resume",),
    "lifecycle.handler_pause": ("handler_pause",),
    "lifecycle.handler_resume": ("handler_resume",),
    "lifecycle.breaker_set": ("breaker_set",),
    "lifecycle.breaker_open": ("breaker_open",),
    "lifecycle.breaker_close": ("breaker_close",),
    "lifecycle.queue_pause": ("queue_pause",),
    "lifecycle.queue_resume": ("queue_resume",),
    "lifecycle.queue_purge": ("queue_purge",),
    "lifecycle.queue_drop": ("queue_drop",),
    "lifecycle.queue_set": ("queue_set",),
    "lifecycle.schedule_run": ("schedule_run",),
    "lifecycle.spend": ("spend",),
    "results": ("await_all", "wait_all"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME_OF]
