"""Read the settings from the dict DJANGO_PGQUEUE when they are needed, with defaults."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings as django_settings

DEFAULTS: dict[str, Any] = {
    # Database alias of the queue's tables; None: the one that the routers give for writing a message.
    "DATABASE": None,
    # Enqueue creates channels that do not exist, without limits.
    "AUTO_CREATE_CHANNELS": False,
    # How long enqueue waits behind another open transaction that fills the same channel with a max_size.
    "ENQUEUE_WAIT": timedelta(seconds=2),
    # How long a worker may be silent before its messages are given to others.
    "LEASE": timedelta(seconds=15),
    # How long a handler may run that has no timeout of its own; None: no limit.
    "HANDLER_TIMEOUT": timedelta(hours=1),
    # How long a message waits for a worker that has its handler, from the first delivery to a worker that has not.
    "UNKNOWN_HANDLER_GRACE": timedelta(minutes=10),
    # Deliveries of a message before it is dead-lettered, unless the handler or the message says otherwise.
    "MAX_ATTEMPTS": 5,
    # How often a stop of the worker may interrupt a message, apart from its attempts, before it is dead-lettered.
    "MAX_INTERRUPTIONS": 20,
    # The most bytes that a message (payload as JSON, body and headers), a result or a saved state may take.
    "MAX_PAYLOAD": 16 * 1024 * 1024,
    # Dotted path of the class that encodes payloads, such as django_pgqueue.codecs.FernetCodec; None: as they are.
    "PAYLOAD_CODEC": None,
    # The keys of FernetCodec, the newest first; or the dotted path of a function of queue, channel and context.
    "PAYLOAD_KEYS": (),
    # The longest time that an idle worker sleeps between two dequeues; NOTIFY wakes it earlier.
    "POLL_INTERVAL": timedelta(seconds=1),
    # When enqueue notifies workers: while one is "waiting", "always", or "never", then they poll.
    "NOTIFY": "waiting",
    # Connection for LISTEN, for projects behind a transaction pooler: a database alias; None: DATABASE.
    "LISTEN_DATABASE": None,
    # How often a worker sweeps expired leases, moves the floors, prunes.
    "SWEEP_INTERVAL": timedelta(seconds=5),
    "TICK_INTERVAL": timedelta(milliseconds=200),
    "PRUNE_INTERVAL": timedelta(minutes=5),
    # How often workers update the figures of the dashboard.
    "MEASURE_INTERVAL": timedelta(seconds=15),
    # How often a worker looks for schedules that are due.
    "SCHEDULE_INTERVAL": timedelta(milliseconds=500),
    # Archive partitions and dead letters older than this are dropped; None keeps them.
    "ARCHIVE_RETENTION": timedelta(days=30),
    "DEAD_LETTER_RETENTION": None,
    # Ticks of schedules, and schedules that the code no longer declares, are deleted after this time.
    "SCHEDULE_RETENTION": timedelta(days=7),
    "PARTITIONS_AHEAD": 7,
    # Where the lake of Parquet files is, for manage.py pgqueue lake; None: each command names it with --lake.
    "LAKE": None,
    # Retention drops only partitions and dead letters that every lake has.
    "KEEP_UNTIL_EXPORTED": False,
    # How long messages of a "queue" or a "queue/channel" may take from the enqueue to the end, for the rollups.
    "SLA": {},
    # A request with this token may read the metrics for Prometheus; None: only staff may.
    "METRICS_TOKEN": None,
    # Dotted paths of callables: the dicts that they return are added to the headers of each new message.
    "ENQUEUE_CONTEXT": (),
    # Dotted paths of context managers that take a delivery: entered around each call of a handler, the first outermost.
    "HANDLER_MIDDLEWARE": (),
    # For the middleware set_local: names of PostgreSQL's settings, and the key of the channel's context for each.
    "SET_LOCAL": {},
    # Keys of SET_LOCAL that the headers of a message may set, too: each program that may enqueue chooses their values.
    "SET_LOCAL_HEADERS": (),
    # The lowest level of the records of handlers that are kept with their messages, such as "INFO"; None: none.
    "LOG_CAPTURE": None,
    # The address that the admin links a message's trace to, with {trace_id} and optionally {span_id} in it.
    "TRACE_URL": None,
    # Shared limits by name, each a dict of the options of Limit; they win over those that code declares.
    "LIMITS": {},
    # A warning appears in the server log when a message has been ready for longer.
    "WAITING_WARNING": timedelta(minutes=1),
}


class Settings:
    """Give attribute access to DJANGO_PGQUEUE; nothing is cached, so ``override_settings`` works."""

    def __getattr__(self, name: str) -> Any:
        if name not in DEFAULTS:
            raise AttributeError(f"DJANGO_PGQUEUE has no setting {name!r}")
        return getattr(django_settings, "DJANGO_PGQUEUE", {}).get(name, DEFAULTS[name])

    def unknown(self) -> list[str]:
        """Return the names in DJANGO_PGQUEUE that are no settings, for the system check."""
        return sorted(set(getattr(django_settings, "DJANGO_PGQUEUE", {})) - set(DEFAULTS))


settings = Settings()
