"""A message queue for Django on the PostgreSQL it already runs.

The names of the public API are resolved when they are first used: importing this package imports no Django, so that
Spark workers can.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOMES = {
    "outcomes": ("Cancelled", "Complete", "DeadLetter", "Defer", "Retry"),
    "backoff": ("Constant", "Exponential"),
    "delivery": ("Delivery", "Enqueued", "NewMessage"),
    "handlers": ("handler",),
    "schedules": ("schedule",),
    "lifecycle.enqueue": ("aenqueue", "enqueue", "enqueue_many"),
    "lifecycle.dequeue": ("dequeue",),
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
    "lifecycle.discard_dead": ("discard_dead",),
    "lifecycle.edit": ("edit",),
    "lifecycle.purge": ("purge",),
    "lifecycle.explain": ("explain_channel", "explain_message"),
    "lifecycle.metrics": ("metrics",),
    "lifecycle.sweep": ("sweep",),
    "lifecycle.prune": ("prune",),
    "lifecycle.measure": ("measure",),
    "lifecycle.channel_set": ("channel_set",),
    "lifecycle.channel_release": ("channel_release",),
    "lifecycle.channel_pause": ("channel_pause",),
    "lifecycle.channel_resume": ("channel_resume",),
    "lifecycle.queue_pause": ("queue_pause",),
    "lifecycle.queue_resume": ("queue_resume",),
    "lifecycle.schedule_run": ("schedule_run",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOME_OF]
