"""List what each kind of client needs in the database: functions to run, tables to read, few columns to write.

Everything else happens inside of the functions, with the rights of their owner. So no client needs the right to write
``status`` or ``lease_token``, and none gets it.
"""

from __future__ import annotations

from dataclasses import dataclass

READ = "SELECT"
# The columns of a message that an enqueuer may set; the functions set the others.
GIVEN = (
    "channel_id", "handler", "payload", "body", "headers", "priority", "dequeue_at", "max_attempts", "backoff",
    "backoff_factor", "backoff_longest", "dedupe_key", "order_key",
)  # fmt: skip
LIMITS = (
    "name", "max_concurrency", "max_size", "full_policy", "release_interval", "release_burst", "weight", "archive",
    "ordered", "on_dead", "context", "paused_at", "pause_reason", "paused_until", "released_at",
)  # fmt: skip
QUEUE = (
    "paused_at", "pause_reason", "paused_until", "archive", "retention", "dead_letter_retention", "events",
    "max_concurrency", "release_interval", "release_burst", "fairness", "max_share",
)  # fmt: skip
PLAN = (
    "name", "handler", "queue", "channel", "payload", "headers", "priority", "cron", "every", "time_zone", "enabled",
    "missed", "missed_limit", "grace", "overlap",
)  # fmt: skip
TABLES = (
    "message", "channel", "queue", "archived_message", "log", "dead_letter", "worker", "schedule", "schedule_tick",
    "lane", "arrival", "gate", "gate_side", "departure", "channel_size", "floor", "waiter", "tally", "unarchived",
    "unarchived_total", "queue_warning", "pruned", "activity", "backlog", "measurement", "limit", "limit_handler",
    "place", "spent", "meter", "breaker_outcome", "breaker_change", "order_note", "unique_key",
)  # fmt: skip
# Tables of the optional app django_pgqueue.pipeline.
PIPELINE_TABLES = ("lake", "queue_metric", "ingest", "ingest_stage")

# Tables of the optional app django_pgqueue.flow.
FLOW_TABLES = (
    "batch", "batch_member", "batch_lost", "batch_added", "batch_unsure", "progress", "step", "event", "event_unsure",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableRight:
    """Hold a ``privilege`` on a table, or on ``columns`` of it. ``purpose``: what is impossible without it."""

    privilege: str
    table: str
    purpose: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientKind:
    """Hold the rights of one kind of client. ``verbs``: the functions that it may run, without ``pgqueue_``."""

    name: str
    verbs: tuple[str, ...]
    rights: tuple[TableRight, ...]


PRODUCER = ClientKind(
    "producer",
    ("enqueue", "enqueue_many", "enqueue_unique", "raise"),
    (
        TableRight("INSERT", "message", "enqueue by a plain INSERT or COPY", GIVEN),
        TableRight(READ, "message", "INSERT … RETURNING id", ("id",)),
        TableRight(READ, "channel", "look up the channel of an INSERT", ("id", "queue", "name")),
    ),
)
WORKER = ClientKind(
    "worker",
    (
        *PRODUCER.verbs, "dequeue", "dequeue_matching", "dequeue_wait", "pop",
        "heartbeat", "spend", "complete", "defer", "defer_unknown", "retry", "dead_letter", "keep_logs",
        "wait", "next_due", "is_contended", "tick", "entries_walked", "sweep", "prune", "prune_queues", "measure",
        "schedule_fire", "schedule_prune", "limit_set", "limit_pause", "limit_resume", "breaker_set",
        "breaker_changes", "open_breakers",
    ),
    (
        *PRODUCER.rights,
        TableRight(READ, "message", "see what a process that died has held"),
        TableRight(READ, "channel", "look at channels"),
        TableRight(READ, "queue", "see that a queue is paused"),
        *(TableRight(word, "worker", "register itself") for word in (READ, "INSERT", "UPDATE", "DELETE")),
        *(TableRight(word, "schedule", "keep the schedules that code declares") for word in (READ, "INSERT", "UPDATE")),
        *(TableRight(READ, table, "keep the limits that code declares") for table in ("limit", "limit_handler")),
    ),
)  # fmt: skip
# A worker without one of these rights would lease nothing, or run messages again and again, because it could not write
# their outcomes down.
SERVING = ClientKind(
    WORKER.name,
    ("dequeue", "dequeue_matching", "heartbeat", "complete", "defer", "defer_unknown", "retry", "dead_letter"),
    (
        *(right for right in WORKER.rights if right.table in ("worker", "queue")),
        TableRight(READ, "channel", "find the queues", ("queue",)),
    ),
)
READER = ClientKind(
    "reader",
    (
        "explain_channel", "explain_message", "metrics", "peek", "health", "limit_health", "held_channels", "waiting",
        "find_unreachable", "breakers", "histogram_percentile",
    ),
    tuple(TableRight(READ, table, "look at it") for table in TABLES),
)  # fmt: skip
OPERATOR = ClientKind(
    "operator",
    (
        *READER.verbs, "raise", "channel_set", "channel_pause", "channel_resume", "channel_purge", "channel_release",
        "channel_erase", "remove_released", "queue_pause", "queue_resume", "queue_set", "queue_purge", "queue_drop",
        "cancel", "redrive", "reschedule", "lease_release", "discard", "delete_dead", "edit",
        "limit_set", "limit_drop", "limit_pause", "limit_resume", "handler_pause", "handler_resume",
        "breaker_set", "breaker_open", "breaker_close",
        "schedule_run", "sweep", "prune", "prune_queues", "measure", "schedule_prune", "repair",
    ),
    (
        *READER.rights,
        TableRight("INSERT", "channel", "add a channel in the admin"),
        TableRight("UPDATE", "channel", "edit the limits of a channel", LIMITS),
        TableRight("INSERT", "queue", "add a queue in the admin"),
        TableRight("UPDATE", "queue", "pause a queue, edit its limits, what it archives, or its events", QUEUE),
        TableRight("UPDATE", "worker", "pause a worker", ("paused_at", "pause_reason")),
        TableRight("INSERT", "schedule", "add a schedule"),
        TableRight("UPDATE", "schedule", "edit a schedule", PLAN),
        TableRight("DELETE", "schedule", "delete a schedule"),
    ),
)  # fmt: skip
LOOKS = tuple(TableRight(READ, table, "look at it") for table in PIPELINE_TABLES)
PIPELINE = ClientKind(
    "pipeline",
    (*READER.verbs, "redrive", "lake_exported", "ingest_open", "ingest", "ingest_clean"),
    (
        *READER.rights,
        *LOOKS,
        TableRight("DELETE", "lake", "forget a lake that is made anew"),
        *(TableRight(word, "queue_metric", "load what the rollup computed") for word in ("INSERT", "DELETE")),
    ),
)  # fmt: skip
KINDS = (PRODUCER, WORKER, OPERATOR, READER, PIPELINE)
# What the app of batches adds to each kind.
FLOW_LOOKS = tuple(TableRight(READ, table, "look at batches") for table in FLOW_TABLES)
FLOW = {
    PRODUCER.name: (
        ("batch_open", "batch_seal", "batch_enter", "batch_counts", "enqueue_after", "progress_of", "notify_event"),
        (),
    ),
    WORKER.name: (
        (
            "batch_open",
            "batch_seal",
            "batch_enter",
            "batch_counts",
            "enqueue_after",
            "after_results",
            "progress",
            "progress_of",
            "notify_event",
            "step_event",
            "step_keep",
            "step_pause",
            "steps",
        ),
        (),
    ),
    OPERATOR.name: (("batch_counts", "batch_check", "progress_of", "notify_event"), FLOW_LOOKS),
    **{kind.name: (("batch_counts", "batch_check", "progress_of"), FLOW_LOOKS) for kind in (READER, PIPELINE)},
}


def client_kinds(*, pipeline: bool, flow: bool) -> dict[str, ClientKind]:
    """Return the kinds of clients by name.

    ``pipeline``, ``flow``: the database has the tables and functions of that app. Without the pipeline there is no kind
    of that name, and without an app no kind may use its tables.
    """
    kinds = {kind.name: kind for kind in KINDS if pipeline or kind is not PIPELINE}
    if pipeline:
        kinds[READER.name] = added(READER, (), LOOKS)
        kinds[OPERATOR.name] = added(OPERATOR, (), (*LOOKS, TableRight("DELETE", "lake", "give up a lake")))
    return {name: added(kind, *FLOW[name]) for name, kind in kinds.items()} if flow else kinds


def added(kind: ClientKind, verbs: tuple[str, ...], rights: tuple[TableRight, ...]) -> ClientKind:
    """Return the kind of client with more rights."""
    return ClientKind(kind.name, (*kind.verbs, *verbs), (*kind.rights, *rights))


def queue_tables(*, pipeline: bool, flow: bool) -> tuple[str, ...]:
    """Return the tables of the queue, without ``pgqueue_``. ``pipeline``, ``flow``: include those of that app."""
    return (*TABLES, *(PIPELINE_TABLES if pipeline else ()), *(FLOW_TABLES if flow else ()))
