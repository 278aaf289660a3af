"""C9: the real plans of the statements inside the functions, with the statistics of an empty queue and of a large one.

Every table that grows is reached by an index, whatever the statistics say, and what a call reads does not grow with the
backlog, the archive, the channels or what is scheduled for later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from tests.schema.calls import OPERATOR, VERBS, RecordPlans, held, index_names, make_channels, nodes, plans_of
from tests.support.databases import migrated
from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, enqueue_many, settle, tick

# django_db: the server is there for tests that say they need it.
pytestmark = [pytest.mark.auto_explain, pytest.mark.django_db]

MESSAGES = 100_000
CHANNELS = 1_000
GROWING = re.compile(r"pgqueue_(message|lane|arrival|archived_message\w*|channel|channel_size|departure)$")


@pytest.fixture(scope="module")
def databases(environment: dict[str, str], pg_url: str, django_db_blocker: Any) -> Iterator[dict[str, str]]:
    """URLs of two queues with statistics of their size: an empty one and a large one. Tests roll back what they do."""
    with ExitStack() as stack:
        urls = {}
        for size in ("empty", "large"):
            urls[size] = stack.enter_context(migrated(f"pgqueue_{size}", pg_url, environment))
            with psycopg.connect(urls[size], autocommit=True) as fresh:
                fill_to_size(fresh, size)
        yield urls


def fill_to_size(session: Session, size: str) -> None:
    if size == "empty":
        session.execute("VACUUM ANALYZE")
    names = make_channels(session, CHANNELS if size == "large" else 4)
    if size == "large":
        session.execute(
            "INSERT INTO pgqueue_message (channel_id, handler, priority, status, dequeue_at)"
            " SELECT c.id, 'work', n %% 3, CASE n %% 10 WHEN 0 THEN 3 ELSE 1 END,"
            " clock_timestamp() + CASE n %% 10 WHEN 0 THEN interval '1 day' ELSE -interval '1 second' END"
            # In turn, as they come: neighbours by id are of other channels.
            " FROM pgqueue_channel AS c, generate_series(1, %s) AS n WHERE c.name LIKE 'channel%%' ORDER BY n, c.id",
            [MESSAGES // CHANNELS],
        )
        for _ in range(CHANNELS):
            tick(session)
            if not one(session, "SELECT count(*) FROM pgqueue_arrival"):
                break
        session.execute(
            "INSERT INTO pgqueue_archived_message (id, queue, channel, handler, payload, priority, attempts,"
            " max_attempts, created_at, dequeue_at, archived_at, outcome)"
            " SELECT -n, 'default', 'channel0001', 'work', '{}', 0, 1, 5,"
            " clock_timestamp(), clock_timestamp(), clock_timestamp(), 'completed' FROM generate_series(1, 20000) AS n"
        )
        session.execute("VACUUM ANALYZE")
    enqueue_many(session, [name for name in names[:4] for _ in range(40)])


@pytest.fixture(params=["empty", "large"])
def queue(request: pytest.FixtureRequest, databases: dict[str, str]) -> Iterator[Session]:
    """A transaction in one of them."""
    with psycopg.connect(databases[request.param]) as session:
        yield session
        session.rollback()


large = pytest.mark.parametrize("queue", ["large"], indirect=True)


# The most that may be read: buffers of a call's statements together. The largest are calls that do fifty messages.
BUFFERS = 20_000
INDEXES = {
    "dequeue 1": {"pgqueue_message_ready", "pgqueue_lane_head"},
    "dequeue 50": {"pgqueue_message_ready", "pgqueue_lane_head", "pgqueue_lane_channel", "pgqueue_message_leased"},
    "complete": {"pgqueue_message_pkey"},
    "heartbeat": {"pgqueue_message_pkey"},
    "defer": {"pgqueue_message_pkey"},
    "retry": {"pgqueue_message_pkey"},
    "dead_letter": {"pgqueue_message_pkey"},
    "cancel": {"pgqueue_message_pkey", "pgqueue_dead_letter_pkey"},
    "dequeue of an empty queue": {"pgqueue_message_expiry", "pgqueue_message_due"},
    "dequeue of what expired": {"pgqueue_message_expiry", "pgqueue_message_pkey"},
    "dequeue of what is due": {"pgqueue_message_due", "pgqueue_message_pkey"},
    "dequeue of a handler": {"pgqueue_message_ready", "pgqueue_lane_head"},
    "dequeue of a payload": {"pgqueue_message_payload"},
    "purge of a channel": {"pgqueue_message_ready", "pgqueue_message_scheduled"},
    "sweep": {"pgqueue_message_expiry", "pgqueue_message_pkey"},
    "tick with messages that are due": {"pgqueue_message_due", "pgqueue_message_pkey"},
    "enqueue with a dedupe key": {"pgqueue_message_dedupe"},
    "enqueue": {"pgqueue_channel_name", "pgqueue_channel_pkey"},
}


def check_scans(plans: list[dict[str, Any]], growing: re.Pattern[str] = GROWING) -> None:
    for plan in plans:
        text = plan["Query Text"]
        assert "JIT" not in plan, text
        for node in nodes(plan["Plan"]):
            if node["Node Type"] == "Seq Scan":
                assert not growing.match(node["Relation Name"]), f"{node['Relation Name']} is scanned by\n{text}"
            # An index scan has read the rows that it throws away.
            wasted = node.get("Rows Removed by Filter", 0)
            assert wasted <= 250, f"{wasted} rows for nothing in\n{text}"


@large
@pytest.mark.parametrize("verb", VERBS | OPERATOR)
def test_every_table_that_grows_is_reached_by_an_index(queue: Session, record_plans: RecordPlans, verb: str) -> None:
    plans = plans_of(queue, record_plans, verb)

    check_scans(plans)
    found = [node for plan in plans for node in nodes(plan["Plan"])]
    assert index_names(found) >= INDEXES.get(verb, set())


@pytest.mark.parametrize("queue", ["empty"], indirect=True)
@pytest.mark.parametrize("verb", VERBS)
def test_plans_do_not_trust_the_statistics_of_an_empty_queue(
    queue: Session, record_plans: RecordPlans, verb: str
) -> None:
    # Four channels may be scanned: their number does not change from one second to the next.
    check_scans(plans_of(queue, record_plans, verb), re.compile(GROWING.pattern.replace("channel|", "")))


@pytest.mark.parametrize("verb", ["complete", "heartbeat", "defer", "retry", "dead_letter", "cancel"])
def test_a_large_batch_looks_at_each_message_once_and_in_order(
    queue: Session, record_plans: RecordPlans, verb: str
) -> None:
    enqueue_many(queue, ["channel0000"] * 200)
    leases = held(queue, 200)
    plans = record_plans(queue)
    VERBS[verb][1](queue, leases)
    found = [node for plan in plans for node in nodes(plan["Plan"])]

    for plan in plans:
        for node in nodes(plan["Plan"]):
            # The handful of channels may be looked at for each message, the batch may not.
            assert node.get("Rows Removed by Join Filter", 0) <= 200 * 10, plan["Query Text"]
    for node in found:
        if node.get("Alias") == "m" and "Scan" in node["Node Type"] and "lease_token" in node.get("Filter", ""):
            assert (node["Node Type"], index_names([node])) == ("Index Scan", {"pgqueue_message_pkey"})
            assert node["Rows Removed by Filter"] == 0


def reads(plans: list[dict[str, Any]]) -> tuple[int, float]:
    """Buffers, and rows of the largest scan."""
    buffers = sum(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] for plan in plans)
    scans = [
        node
        for plan in plans
        for node in nodes(plan["Plan"])
        if "Relation Name" in node and "Scan" in node["Node Type"]
    ]
    return buffers, max((node["Actual Rows"] * node["Actual Loops"] for node in scans), default=0)


@large
@pytest.mark.parametrize("verb", VERBS | OPERATOR)
def test_the_rows_and_buffers_that_a_call_reads_do_not_grow_with_the_backlog(
    queue: Session, record_plans: RecordPlans, verb: str
) -> None:
    buffers, rows = reads(plans_of(queue, record_plans, verb))

    assert rows <= 1100, f"{rows} rows in one scan"
    assert buffers <= BUFFERS, f"{buffers} buffers"


@large
@pytest.mark.parametrize("verb", ["dequeue 1", "complete", "heartbeat", "sweep", "tick", "retry", "defer"])
def test_plans_hold_when_the_statistics_are_of_another_time(
    queue: Session, record_plans: RecordPlans, verb: str
) -> None:
    """Taken while the tables were empty, used when they are full."""
    queue.execute(
        "UPDATE pg_class SET reltuples = 0, relpages = 0"
        " WHERE relname IN ('pgqueue_message', 'pgqueue_lane', 'pgqueue_arrival')"
    )
    queue.execute("DELETE FROM pg_statistic WHERE starelid = 'pgqueue_message'::regclass")
    check_scans(plans_of(queue, record_plans, verb))


@large
def test_news_of_limited_channels_read_their_lanes_only(queue: Session, record_plans: RecordPlans) -> None:
    """A completion leaves a note for the line, and the next dequeue reads it."""
    tick(queue, 4)
    leases = held(queue, 60)
    plans = record_plans(queue)
    settle(queue, leases)
    left = [plan for plan in plans if "INSERT INTO pgqueue_arrival" in plan["Query Text"]]
    # They are of another transaction: one's own are folded by another way.
    queue.execute("UPDATE pgqueue_arrival SET xid = '1000000000000'")
    plans.clear()
    dequeue(queue, 50)
    folded = [plan for plan in plans if "l.channel_id = n.channel_id" in plan["Query Text"]]

    for found in (left, folded):
        assert found
        lanes = [n for plan in found for n in nodes(plan["Plan"]) if n.get("Relation Name") == "pgqueue_lane"]
        assert 0 < sum(node["Actual Rows"] * node["Actual Loops"] for node in lanes) <= 2 * len(leases)
