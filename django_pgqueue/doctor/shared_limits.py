"""Find shared limits that hold messages up for long, or that cannot do what they are for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from django_pgqueue import handlers
from django_pgqueue.conf import settings
from django_pgqueue.doctor.finding import SHOWN_NAMES, Finding, Limits, Severity, age_text, list_text, safe_name
from django_pgqueue.lifecycle.limit_health import LimitHealth, limit_health
from django_pgqueue.limits import UNDECLARED, handler_of_limit
from django_pgqueue.sql.call import call

# served: a message waits in a channel that nothing else holds up.
DETAILS = """
SELECT l.name::text, l.pause_reason, l.paused_until IS NULL, l.max_cost, l.release_burst,
    l.release_interval IS NOT NULL, coalesce(w.cost, 1), coalesce(w.served, false)
FROM pgqueue_limit AS l
CROSS JOIN LATERAL (
    SELECT max(coalesce(n.cost, 1)) AS cost,
        bool_or(c.paused_at IS NULL AND c.max_concurrency IS NULL AND c.release_interval IS NULL
            AND n.dequeue_at < clock_timestamp() - %s::interval
            AND NOT EXISTS (SELECT FROM pgqueue_queue AS q WHERE q.name = c.queue AND q.paused_at IS NOT NULL)
        ) AS served
    FROM (SELECT m.cost, m.channel_id, m.dequeue_at FROM pgqueue_message AS m WHERE m.waits_for = l.id LIMIT %s) AS n
    LEFT JOIN pgqueue_channel AS c ON c.id = n.channel_id
) AS w
"""
# A worker of an older release does not report its handlers; it may have any.
HANDLERS = """
SELECT l.name::text, h.handler::text
FROM pgqueue_limit_handler AS h
JOIN pgqueue_limit AS l ON l.id = h.limit_id
WHERE NOT h.breaker AND NOT EXISTS (
    SELECT FROM pgqueue_worker AS w
    WHERE w.heartbeat_at >= clock_timestamp() - %s::interval AND (w.handlers IS NULL OR w.handlers ? h.handler))
ORDER BY l.name, h.handler
LIMIT %s
"""


class LimitDetails(NamedTuple):
    """Hold the settings of a limit, and what waits for it. ``cost``: the highest of a waiting message."""

    pause_reason: str
    is_endless: bool
    max_cost: int | None
    burst: int
    has_rate: bool
    cost: int
    is_served: bool

    @property
    def capacity(self) -> int | None:
        """Return the highest cost that fits into the limit; None: any."""
        bounds = [self.max_cost, self.burst if self.has_rate else None]
        return min((bound for bound in bounds if bound is not None), default=None)


def examine_shared_limits(using: str, limits: Limits) -> Iterator[Finding]:
    """Report shared limits that hold messages up, and those of handlers that do not exist."""
    rows = [row for row in limit_health(most=limits.most, using=using) if row.kind == "shared" and row.waiting]
    details: dict[str, LimitDetails] = {}
    if rows:
        found = call(using, DETAILS, (limits.unattended, limits.most))
        details = {name: LimitDetails(*values) for name, *values in found}
    longest = settings.WAITING_WARNING if limits.waiting is None else limits.waiting
    for row in rows:
        if row.name in details:
            yield from findings_of_limit(row, details[row.name], longest)
    named: dict[str, list[str]] = {}
    for limit, handler in call(using, HANDLERS, (settings.LEASE, limits.most)):
        if handlers.find(handler) is None:
            named.setdefault(limit, []).append(handler)
    yield from (limit_without_handlers(limit, missing) for limit, missing in named.items())


def findings_of_limit(row: LimitHealth, details: LimitDetails, longest: timedelta) -> Iterator[Finding]:
    """Yield the findings of one limit that messages wait for."""
    age = row.oldest_age or timedelta(0)
    if row.why == "paused":
        yield limit_undeclared(row) if details.pause_reason == UNDECLARED else limit_paused(row, details, age > longest)
    elif row.why is None and details.is_served:
        yield limit_stuck(row)
    elif row.why is not None and age > longest:
        yield limit_waits(row)
    if details.capacity is not None and details.cost > details.capacity:
        yield limit_too_small(row, details)


def limit_undeclared(row: LimitHealth) -> Finding:
    """Report a limit that a handler names and nothing declares."""
    return Finding(
        "limit_undeclared",
        Severity.CRITICAL,
        f"A handler names the shared limit {safe_name(row.name)}, and nothing declares it: {waiting_text(row)}.",
        f"Declare Limit({row.name!r}, …) in handlers.py or in the setting LIMITS and restart the workers, or set and "
        "resume it with manage.py pgqueue set limit and pgqueue resume limit.",
        limit_facts(row),
    )


def limit_paused(row: LimitHealth, details: LimitDetails, is_long: bool) -> Finding:
    """Report a paused limit or handler that messages wait for. It is a warning if the pause has no end and they wait
    for long."""
    handler = handler_of_limit(row.name)
    return Finding(
        "limit_paused",
        Severity.WARNING if is_long and details.is_endless else Severity.NOTE,
        f"The {safe_name(row.name) if handler else f'shared limit {safe_name(row.name)}'} is paused"
        f"{'' if details.is_endless else ' until a set time'}: {waiting_text(row)}.",
        "Resume it when the reason is gone: manage.py pgqueue resume "
        f"{f'handler {safe_name(handler)}' if handler else f'limit {safe_name(row.name)}'}.",
        limit_facts(row),
    )


def limit_stuck(row: LimitHealth) -> Finding:
    """Report a limit that has room, and messages wait for it."""
    return Finding(
        "limit_stuck",
        Severity.WARNING,
        f"The shared limit {safe_name(row.name)} has room, and nothing takes it: {waiting_text(row)}.",
        "Start a worker or the maintenance (manage.py sweepqueue). If they run, a transaction that has dequeued a "
        "message of the limit is still open and holds it: look for it with pgqueue doctor --only horizon.",
        limit_facts(row),
    )


def limit_waits(row: LimitHealth) -> Finding:
    """Report a limit that messages have waited for too long."""
    reason = "all of it is taken" if row.why == "full" else "its rate gives no token"
    return Finding(
        "limit_waits",
        Severity.WARNING,
        f"Messages wait for long for the shared limit {safe_name(row.name)}, because {reason}: {waiting_text(row)}.",
        "See which channels hold its places: manage.py pgqueue explain channel NAME, of one that waits. Raise the "
        "limit if the service that it protects can take more, or enqueue less.",
        limit_facts(row),
    )


def limit_too_small(row: LimitHealth, details: LimitDetails) -> Finding:
    """Report a message that costs more than the limit ever has."""
    return Finding(
        "limit_cost",
        Severity.WARNING,
        f"A message that waits for the shared limit {safe_name(row.name)} costs {details.cost:,}, and the limit never "
        f"has more than {details.capacity:,}: it runs only when nothing else uses the limit.",
        "Raise max_cost or the burst of the rate, or split the message into smaller ones.",
        limit_facts(row) | {"cost": details.cost, "capacity": details.capacity},
    )


def limit_without_handlers(limit: str, missing: list[str]) -> Finding:
    """Report a limit that is set for handlers that do not exist."""
    handler = handler_of_limit(limit)
    return Finding(
        "limit_handler_missing",
        Severity.NOTE,
        f"The handler {safe_name(handler)} is or was paused, and no worker and no installed app has it."
        if handler
        else f"The shared limit {safe_name(limit)} is set for handlers that no worker and no installed app has: "
        f"{list_text(missing)}.",
        "If the name is wrong, delete the pause: it is the shared limit of this name in the admin, and manage.py "
        f"pgqueue drop limit '{safe_name(limit)}' drops it."
        if handler
        else "Correct the names with limit_set(handlers=[…]) or in the admin. Removed handlers do no harm.",
        {"limit": limit, "handlers": len(missing), "shown": missing[:SHOWN_NAMES]},
    )


def waiting_text(row: LimitHealth) -> str:
    """Return how many messages wait for the limit, and for how long."""
    at_least = "" if row.complete else "at least "
    return f"{at_least}{row.waiting} message(s) wait, the oldest for {age_text(row.oldest_age or timedelta(0))}"


def limit_facts(row: LimitHealth) -> dict[str, Any]:
    """Return the facts of a finding."""
    age = row.oldest_age or timedelta(0)
    return {"limit": row.name, "messages": row.waiting, "complete": row.complete, "seconds": age.total_seconds()}
