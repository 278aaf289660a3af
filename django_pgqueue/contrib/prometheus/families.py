"""Measure the queue. The cost of a scrape does not grow with the backlog, the archive or the number of channels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django_pgqueue.jsonb import from_json
from django_pgqueue.lifecycle.breakers import BreakerState, breakers
from django_pgqueue.lifecycle.figures import HeldChannel, LimitHealth, QueueHealth, health, held_channels, limit_health
from django_pgqueue.sql.call import alias, bounded_read, call

# The timeout of a statement, in seconds: Prometheus gives up a scrape that takes longer.
STATEMENT_SECONDS = 10.0
# The most workers that are reported, those with the newest heartbeats first; and the most limits.
MOST_WORKERS, MOST_LIMITS = 1000, 1000
# The most handlers, those that have settled most, and the most types of errors of each.
MOST_HANDLERS, MOST_TYPES = 200, 20
# The most leased messages that are counted.
MOST_LEASED = 10_000
HANDLERS = """
SELECT a.queue::text, a.handler::text, a.completed, a.cancelled, a.dead, a.errors, a.waits, a.runs
FROM pgqueue_activity AS a
WHERE a.handler IS NOT NULL AND a.minutes = 0
ORDER BY a.completed + a.cancelled + a.dead DESC
LIMIT %s
"""
IN_FLIGHT = """
SELECT c.queue::text, l.handler::text, count(*)
FROM (SELECT m.handler, m.channel_id FROM pgqueue_message AS m WHERE m.status = 2 LIMIT %s) AS l
JOIN pgqueue_channel AS c ON c.id = l.channel_id
GROUP BY c.queue, l.handler
ORDER BY count(*) DESC
LIMIT %s
"""
# Every fourth position of a histogram, from 1 ms to 70 minutes: the position, and the seconds at its end.
BUCKETS = [(place, 0.001 * 2 ** ((place - 1) / 2)) for place in range(1, 46, 4)]
WORKERS = """
SELECT w.name, extract(epoch FROM clock_timestamp() - w.heartbeat_at)::float, jsonb_array_length(w.running), w.totals
FROM pgqueue_worker AS w ORDER BY w.heartbeat_at DESC LIMIT %s
"""
SERVER = """
SELECT
    (SELECT extract(epoch FROM clock_timestamp() - min(a.xact_start))::float FROM pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
        AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
        AND coalesce(a.backend_type, '') NOT IN ('autovacuum worker', 'walsender')),
    (SELECT extract(epoch FROM clock_timestamp() - f.ticked_at)::float
    FROM pgqueue_floor AS f ORDER BY f.id DESC LIMIT 1),
    pg_notification_queue_usage()
"""
DEAD_ROWS = """
SELECT c.relname::text, pg_stat_get_dead_tuples(c.oid) FROM pg_class AS c
WHERE c.relname LIKE 'pgqueue\\_%%' AND c.relkind = 'r' AND NOT c.relispartition AND pg_table_is_visible(c.oid)
ORDER BY c.relname
"""


@dataclass(frozen=True, slots=True)
class Sample:
    labels: dict[str, str]
    value: float
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """Hold one metric. ``kind``: gauge, counter or histogram; the name of a counter ends in ``_total``. Only a
    histogram has samples with a suffix."""

    name: str
    kind: str
    help: str
    samples: list[Sample]


def families(*, using: str | None = None) -> list[Family]:
    """Return all metrics as they are now, in nine queries."""
    using = alias(using)
    with bounded_read(using, seconds=STATEMENT_SECONDS):
        workers = worker_families(call(using, WORKERS, (MOST_WORKERS,)))
        limits = limit_families(limit_health(using=using)[:MOST_LIMITS])
        rows = health(using=using)
        held = held_families([row.queue for row in rows], held_channels(using=using))
        guarded = breaker_families(breakers(using=using))
        handlers = handler_families(call(using, HANDLERS, (MOST_HANDLERS,)))
        leased = call(using, IN_FLIGHT, (MOST_LEASED, MOST_HANDLERS))
        flight = gauge(
            "handler_in_flight",
            "Leased messages of the handler.",
            [({"queue": queue, "handler": handler}, count) for queue, handler, count in leased],
        )
        server = server_families(using)
        return [*queue_families(rows), *handlers, flight, *limits, *held, *guarded, *workers, *server]


def gauge(name: str, text: str, samples: Iterable[tuple[dict[str, str], float | None]]) -> Family:
    """Return a gauge named ``pgqueue_<name>``. ``samples``: labels and values; a value of None is left out."""
    return Family(
        f"pgqueue_{name}", "gauge", text, [Sample(labels, value) for labels, value in samples if value is not None]
    )


def queue_families(rows: list[QueueHealth]) -> list[Family]:
    """Return the metrics of the queues, from the rows of ``health()``."""

    def each(field: str) -> list[tuple[dict[str, str], float]]:
        return [({"queue": row.queue}, float(getattr(row, field))) for row in rows]

    return [
        gauge(
            "messages",
            "Live messages by state; a lower bound where pgqueue_counts_complete is 0.",
            [
                ({"queue": row.queue, "state": state}, getattr(row, state))
                for row in rows
                for state in ("ready", "leased", "scheduled", "waiting_for_limit", "waiting_for_order_key")
            ],
        ),
        gauge("blocked_messages", "Scheduled messages that wait for others; a lower bound, as above.", each("blocked")),
        gauge("dead_letters", "Dead letters that were not redriven; a lower bound, as above.", each("dead")),
        gauge("counts_complete", "1: the counts are exact. 0: there are more than were counted.", each("complete")),
        gauge(
            "oldest_ready_age_seconds",
            "How long the oldest ready message has been due; 0: none is ready.",
            [({"queue": row.queue}, row.oldest_age.total_seconds() if row.oldest_age else 0.0) for row in rows],
        ),
        gauge("workers", "Workers that serve the queue and had a heartbeat within LEASE.", each("workers")),
        gauge("queue_paused", "1: the queue is paused.", each("paused")),
    ]


def handler_families(rows: list[tuple[Any, ...]]) -> list[Family]:
    """Return the metrics of the handlers, from their rows of pgqueue_activity for all time."""
    outcomes: list[Sample] = []
    errors: list[Sample] = []
    waits: list[Sample] = []
    runs: list[Sample] = []
    for queue, handler, completed, cancelled, dead, failed, waited, ran in rows:
        labels = {"queue": queue, "handler": handler}
        for outcome, count in (("completed", completed), ("cancelled", cancelled), ("dead", dead)):
            outcomes.append(Sample({**labels, "outcome": outcome}, count))
        most = sorted(from_json(failed).items(), key=lambda item: (-item[1], item[0]))[:MOST_TYPES]
        errors += [Sample({**labels, "error": error}, count) for error, count in most]
        waits += histogram(labels, waited)
        runs += histogram(labels, ran)
    return [
        Family("pgqueue_handler_messages_total", "counter", "Messages that were settled, by outcome.", outcomes),
        Family("pgqueue_handler_failures_total", "counter", "Attempts of them that failed, by type of error.", errors),
        Family("pgqueue_handler_wait_seconds", "histogram", "From due to the start, at the last attempt.", waits),
        Family("pgqueue_handler_run_seconds", "histogram", "From the start to settled, at the last attempt.", runs),
    ]


def histogram(labels: dict[str, str], counts: list[int]) -> list[Sample]:
    """Return the samples of a histogram of pgqueue_histogram. Their sum takes each position at its middle."""
    samples = [Sample({**labels, "le": f"{end:g}"}, sum(counts[:place]), "_bucket") for place, end in BUCKETS]
    total = sum(0.001 * 2 ** ((place - 1.5) / 2) * count for place, count in enumerate(counts, 1))
    whole = sum(counts)
    return [*samples, Sample({**labels, "le": "+Inf"}, whole, "_bucket"), Sample(labels, total, "_sum"),
            Sample(labels, whole, "_count")]  # fmt: skip


def breaker_families(rows: list[BreakerState]) -> list[Family]:
    """Return the metrics of the breakers, by handler."""
    handlers = sorted({row.handler for row in rows})
    return [
        gauge(
            "breakers_open",
            "Open breakers of the handler: 0 or 1, or the number of channels if each has one.",
            [({"handler": name}, sum(row.handler == name and row.is_open for row in rows)) for name in handlers],
        ),
        gauge(
            "breaker_waiting",
            "Messages that wait for the breakers of the handler; 1,000 at most for each of them.",
            [({"handler": name}, sum(row.waiting for row in rows if row.handler == name)) for name in handlers],
        ),
        Family(
            "pgqueue_breaker_openings_total",
            "counter",
            "How often breakers of the handler have opened, without tries that failed.",
            [Sample({"handler": row.handler}, row.openings) for row in rows if row.channel is None],
        ),
    ]


def limit_families(rows: list[LimitHealth]) -> list[Family]:
    """Return the metrics of shared limits and of the limits of queues, from the rows of ``limit_health()``."""

    def each(field: str) -> list[tuple[dict[str, str], float | None]]:
        return [({"kind": row.kind, "limit": row.name}, getattr(row, field)) for row in rows]

    ages = [
        ({"kind": row.kind, "limit": row.name}, row.oldest_age.total_seconds() if row.oldest_age else 0.0)
        for row in rows
    ]
    return [
        gauge("limit_places", "Leased messages that count for the limit.", each("places")),
        gauge("limit_max_concurrency", "The most of them; no sample: no limit.", each("max_concurrency")),
        gauge("limit_waiting", "Messages that wait for the limit; 10,000 at most.", each("waiting")),
        gauge("limit_oldest_wait_seconds", "How long the oldest of them has been due; 0: none waits.", ages),
        gauge(
            "limit_paused",
            "1: the limit or its queue is paused.",
            [({"kind": row.kind, "limit": row.name}, float(row.why == "paused")) for row in rows],
        ),
    ]


def held_families(queues: list[str], rows: list[HeldChannel]) -> list[Family]:
    """Return the metrics of ordered channels that a message holds, by queue, from the rows of ``held_channels()``."""
    ages = {queue: [row.age.total_seconds() for row in rows if row.queue == queue] for queue in queues}
    return [
        gauge(
            "held_channels",
            "Ordered channels that a failing or deferred message holds.",
            [({"queue": queue}, float(len(found))) for queue, found in ages.items()],
        ),
        gauge(
            "held_channel_age_seconds",
            "The longest time for which one of them has been held; 0: none is.",
            [({"queue": queue}, max(found, default=0.0)) for queue, found in ages.items()],
        ),
    ]


def worker_families(rows: list[tuple[Any, ...]]) -> list[Family]:
    """Return the metrics of the workers. ``rows``: name, seconds since the heartbeat, running messages, totals by
    outcome.
    """
    return [
        gauge("worker_silence_seconds", "Seconds since its heartbeat.", [({"worker": n}, s) for n, s, _, _ in rows]),
        gauge("worker_running", "Messages that it runs; 100 at most.", [({"worker": n}, r) for n, _, r, _ in rows]),
        Family(
            "pgqueue_worker_messages_total",
            "counter",
            "Messages by outcome, since the worker's start.",
            [
                Sample({"worker": worker, "outcome": outcome}, count)
                for worker, _, _, totals in rows
                for outcome, count in sorted(from_json(totals).items())
            ],
        ),
    ]


def server_families(using: str) -> list[Family]:
    """Read the metrics of the database: the oldest transaction, maintenance, notifications, dead rows."""
    oldest, ticked, usage = call(using, SERVER)[0]
    return [
        gauge("oldest_transaction_age_seconds", "The oldest open transaction of the database.", [({}, oldest or 0.0)]),
        gauge("maintenance_age_seconds", "Seconds since maintenance last ran (pgqueue_tick).", [({}, ticked)]),
        gauge("notification_queue_usage_ratio", "How full the server's queue of notifications is.", [({}, usage)]),
        gauge(
            "dead_rows",
            "Rows that wait for vacuum, by the server's statistics.",
            [({"table": table}, count) for table, count in call(using, DEAD_ROWS)],
        ),
    ]
