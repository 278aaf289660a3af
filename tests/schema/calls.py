"""Calls of the engine, and the plans of the statements inside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from tests.support import verbs
from tests.support.sessions import Session
from tests.support.verbs import Lease, enqueue, enqueue_many, limit_set, make_channel, retry, send, settle, tick

# No lease ends by itself, however slow the machine is: a sweep walks those that have ended, dead rows included.
dequeue = partial(verbs.dequeue, lease="1 hour")

RecordPlans = Callable[[Session], list[dict[str, Any]]]
COLUMNS = """
    SELECT i.relname, array_agg(pg_get_indexdef(x.indexrelid, place, true) ORDER BY place)
    FROM pg_index AS x
    JOIN pg_class AS i ON i.oid = x.indexrelid
    CROSS JOIN LATERAL generate_series(1, x.indnkeyatts) AS place
    WHERE x.indrelid = ANY (%s::regclass[])
    GROUP BY i.relname
"""
# The limits of the first channels; those that come after them have the first two.
LIMITS: list[dict[str, Any]] = [
    {},
    {"max_concurrency": 50},
    {"max_size": 100_000},
    {"release_interval": "1 ms", "release_burst": 50},
]


def make_channels(session: Session, count: int) -> list[str]:
    names = [f"channel{place:04}" for place in range(count)]
    for place, name in enumerate(names):
        make_channel(session, name, **(LIMITS[place] if place < 4 else LIMITS[place % 2]))
    return names


def held(session: Session, count: int = 3) -> list[Lease]:
    leases: list[Lease] = []
    while len(leases) < count:
        leases += dequeue(session, count - len(leases))
    return leases


def full_that_drops(session: Session) -> None:
    make_channel(session, "newest", max_size=3, full_policy="drop_oldest")
    for priority in (0, 5, 0):
        enqueue(session, "newest", priority=priority)


def lone(session: Session) -> list[Lease]:
    """Serve one message of a queue that has no other."""
    enqueue(session, "lone", "lone")
    leases = dequeue(session, queue="lone")
    assert len(leases) == 1
    return leases


class Waiting(NamedTuple):
    id: int


def waiting(session: Session) -> list[Waiting]:
    return [Waiting(enqueue(session, "channel0000", delay="1 hour")) for _ in range(3)]


def expired(session: Session) -> list[Lease]:
    leases = dequeue(session, 3, lease="1 microsecond")
    assert leases
    return leases


def waiting_for_a_limit(session: Session) -> list[Lease]:
    """Fill a shared limit, behind which messages wait. Returns the leases that have its places, and others."""
    limit_set(session, "stripe", max_concurrency=2)
    send(session, "channel0000", 6)
    leases = dequeue(session, 60)
    assert session.execute("SELECT FROM pgqueue_message WHERE waits_for >= 0").rowcount
    return leases


# The calls that are measured, each with its preparation.
VERBS: dict[str, tuple[Callable[[Session], Any], Callable[[Session, Any], Any]]] = {
    "enqueue": (lambda s: None, lambda s, _: [enqueue(s, f"channel{place:04}") for place in range(4)]),
    "enqueue with a dedupe key": (lambda s: None, lambda s, _: enqueue(s, "channel0000", dedupe_key="k")),
    "enqueue many": (lambda s: None, lambda s, _: enqueue_many(s, [f"channel{place:04}" for place in range(4)] * 5)),
    "enqueue to a full channel that drops": (full_that_drops, lambda s, _: enqueue(s, "newest")),
    "dequeue 1": (lambda s: None, lambda s, _: [dequeue(s, 1) for _ in range(6)]),
    "dequeue 50": (lambda s: None, lambda s, _: dequeue(s, 50)),
    "dequeue of an empty queue": (lambda s: None, lambda s, _: dequeue(s, 50, queue="nothing")),
    "pop": (lambda s: None, lambda s, _: s.execute("SELECT * FROM pgqueue_pop('default', 3)")),
    "complete": (held, lambda s, leases: settle(s, leases)),
    "heartbeat": (held, lambda s, leases: settle(s, leases, "heartbeat")),
    "defer": (held, lambda s, leases: settle(s, leases, "defer")),
    "retry": (held, lambda s, leases: retry(s, leases)),
    "dead_letter": (held, lambda s, leases: settle(s, leases, "dead_letter", ["refused"] * len(leases))),
    "complete once more": (
        lambda s: [leases := held(s), settle(s, leases)][0],
        lambda s, leases: settle(s, leases, "complete", None, True),
    ),
    "cancel": (
        lambda s: [*waiting(s), *held(s)],
        lambda s, found: s.execute("SELECT pgqueue_cancel(%s)", [[message.id for message in found]]),
    ),
    "dequeue of what expired": (expired, lambda s, _: dequeue(s, 50, queue="nothing")),
    "dequeue of what is due": (
        lambda s: [enqueue(s, "channel0000", delay="1 microsecond") for _ in range(3)],
        lambda s, _: dequeue(s, 50, queue="nothing"),
    ),
    "sweep": (expired, lambda s, _: s.execute("SELECT * FROM pgqueue_sweep()")),
    "tick": (held, lambda s, leases: tick(s, 2)),
    "tick with messages that are due": (
        lambda s: [enqueue(s, "channel0000", delay="1 microsecond") for _ in range(3)],
        lambda s, _: tick(s),
    ),
    "dequeue with a shared limit": (
        lambda s: [limit_set(s, "stripe", max_concurrency=50), send(s, "channel0000", 6), dequeue(s, 60)],
        lambda s, _: [send(s, "channel0001", 3), dequeue(s), dequeue(s, 5)],
    ),
    "dequeue of what waited for a shared limit": (
        waiting_for_a_limit,
        lambda s, leases: [settle(s, leases), dequeue(s), dequeue(s, 5), tick(s)],
    ),
    "complete with an order key": (
        lambda s: [[enqueue(s, "channel0001", order_key="k") for _ in range(3)], dequeue(s, 60)][1],
        lambda s, leases: settle(s, leases),
    ),
    "dequeue a lone message": (lambda s: make_channel(s, "lone", "lone"), lambda s, _: [lone(s) for _ in range(3)]),
}
# Not often, and by people: an index where there is something to search, no promise about a small table.
OPERATOR: dict[str, tuple[Callable[[Session], Any], Callable[[Session, Any], Any]]] = {
    "purge of a channel": (
        lambda s: None,
        lambda s, _: s.execute("SELECT pgqueue_channel_purge('default', 'channel0000', p_limit => 5)"),
    ),
    "purge of a queue": (lambda s: None, lambda s, _: s.execute("SELECT pgqueue_queue_purge('default', p_limit => 5)")),
    "peek of a channel": (
        lambda s: None,
        lambda s, _: s.execute("SELECT * FROM pgqueue_peek('default', 'channel0000')"),
    ),
    "explain a channel": (
        lambda s: tick(s),
        lambda s, _: s.execute("SELECT * FROM pgqueue_explain_channel('default', 'channel0001')"),
    ),
    "explain a message": (
        lambda s: enqueue(s, "channel0001"),
        lambda s, message: s.execute("SELECT * FROM pgqueue_explain_message(%s)", [message]),
    ),
    "explain a settled message": (
        lambda s: settle(s, held(s)),
        lambda s, ids: s.execute("SELECT * FROM pgqueue_explain_message(%s)", [ids[0]]),
    ),
    "dequeue of a handler": (
        lambda s: None,
        lambda s, _: s.execute(
            "SELECT * FROM pgqueue_dequeue_matching(p_limit => 3, p_handler => 'none', p_look => 200)"
        ),
    ),
    "dequeue of a payload": (
        lambda s: s.execute(
            "CREATE INDEX IF NOT EXISTS pgqueue_message_payload ON pgqueue_message USING gin (payload jsonb_path_ops)"
        ),
        lambda s, _: s.execute("""SELECT * FROM pgqueue_dequeue_matching(p_limit => 3, p_payload => '{"k": 1}')"""),
    ),
    "redrive": (
        lambda s: settle(s, leases := held(s), "dead_letter", ["refused"] * len(leases)),
        lambda s, ids: s.execute("SELECT * FROM pgqueue_redrive(%s)", [ids]),
    ),
}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def is_bounded(node: dict[str, Any], columns: list[str]) -> bool:
    """An index is entered by its first columns: a condition on later ones alone reads all of it."""
    named = [re.search(rf"(?<![\w.]){re.escape(column)}(?!\w)", node.get("Index Cond", "")) for column in columns]
    return any(named) and sorted(map(bool, named), reverse=True) == [bool(name) for name in named]


def index_names(found: list[dict[str, Any]]) -> set[str]:
    return {re.sub(r"_[0-9a-f]{8}_(uniq|idx)$", "", node["Index Name"]) for node in found if "Index Name" in node}


def plans_of(session: Session, record_plans: RecordPlans, verb: str) -> list[dict[str, Any]]:
    prepare, measure = (VERBS | OPERATOR)[verb]
    ready = prepare(session)
    plans = record_plans(session)
    session.execute("SET auto_explain.log_buffers = on")
    plans.clear()
    measure(session, ready)
    assert len(plans) >= 2 or verb == "peek of a channel", "nested statements are recorded"
    return list(plans)
