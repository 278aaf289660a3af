"""C9: plans in tables that are full of dead rows which vacuum may not remove, whenever they were made.

A generic plan is made at the first call. For tables of a page or two the planner finds all of an index as cheap as a
look-up in it, and a snapshot that stays open lets dead rows pile up behind such a plan until statistics are taken anew.
Those count what lives, which is little, and may lead to another bad plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.schema.calls import COLUMNS, VERBS, RecordPlans, dequeue, is_bounded, lone, make_channels, nodes, plans_of
from tests.support.databases import migrated
from tests.support.sessions import Session
from tests.support.verbs import enqueue, make_channel, retry, settle, tick

pytestmark = [pytest.mark.auto_explain, pytest.mark.django_db]

CHANNELS = 40
CYCLES = 3_000
TICK_EVERY = 25  # cycles
# A call may walk what has died since the last tick, a few times, but not what has died since the snapshot.
BUFFERS = 1_500
# An index scan, and three for each row that it finds.
HITS = 50
# The tick walks all messages that were scheduled and came due (docs/explanation/delivery-guarantees.md, C10).
WALKED = "pgqueue_message_due"
# A limit and a channel enter this index; the time is looked at in it.
ENTERED = {"pgqueue_message_waiting": 2}
CHURNING = ("message", "lane", "arrival")


@pytest.fixture(scope="module", params=["new", "vacuumed"])
def database(
    request: pytest.FixtureRequest, environment: dict[str, str], pg_url: str, django_db_blocker: Any
) -> Iterator[str]:
    """The planner thinks that a new table has ten pages, until it has been vacuumed."""
    with migrated("pgqueue_old", pg_url, environment) as url:
        with psycopg.connect(url, autocommit=True) as session:
            for table in (*CHURNING, "floor"):
                # New statistics would repair the plans in a while.
                session.execute(f"ALTER TABLE pgqueue_{table} SET (autovacuum_enabled = false)")
            make_channels(session, CHANNELS)
            make_channel(session, "lone", "lone")
            tick(session)
            if request.param == "vacuumed":
                session.execute("VACUUM ANALYZE")
        yield url


@pytest.fixture(scope="module")
def sessions(database: str) -> Iterator[dict[str, Session]]:
    """One has made its plans in time; since then a snapshot has been open beside some thousand calls. For the others
    statistics were taken after them."""
    with (
        psycopg.connect(database) as old,
        psycopg.connect(database) as reader,
        psycopg.connect(database) as new,
        psycopg.connect(database, autocommit=True) as others,
    ):
        plan_all(old)
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM pgqueue_message")
        churn(others)
        yield {"made on an empty queue": old, "made with new statistics": new, "others": others}


def plan_all(session: Session) -> None:
    for prepare, call in VERBS.values():
        for place in range(4):
            enqueue(session, f"channel{place:04}")
        call(session, prepare(session))
        session.rollback()


def churn(session: Session) -> None:
    for cycle in range(CYCLES):
        enqueue(session, f"channel{cycle % CHANNELS:04}")
        leases = dequeue(session, 3)
        if cycle % 4:
            settle(session, leases)
        else:
            retry(session, leases)
        settle(session, lone(session))
        if cycle % TICK_EVERY == 0:
            tick(session)


def serve_all(session: Session) -> None:
    while leases := dequeue(session, 50):
        settle(session, leases)


def refill(session: Session) -> None:
    """Replace the messages by new ones: each test that is rolled back leaves a dead version of each that it leased."""
    serve_all(session)
    for place in range(4):
        for _ in range(10):
            enqueue(session, f"channel{place:04}")
    tick(session, 2)


# In this order: statistics make all sessions plan anew.
@pytest.fixture(
    scope="module",
    params=["made on an empty queue", "made with statistics of an empty queue", "made with new statistics"],
)
def planned(request: pytest.FixtureRequest, sessions: dict[str, Session]) -> Session:
    others = sessions["others"]
    if request.param == "made on an empty queue":
        return sessions[request.param]
    serve_all(others)
    if request.param == "made with new statistics":
        refill(others)
    others.execute(f"ANALYZE {', '.join(f'pgqueue_{table}' for table in CHURNING)}")
    session = sessions["made with new statistics"]
    plan_all(session)
    return session


@pytest.fixture
def queue(planned: Session, sessions: dict[str, Session]) -> Iterator[Session]:
    refill(sessions["others"])
    yield planned
    planned.rollback()


@pytest.fixture(scope="module")
def columns(database: str) -> dict[str, list[str]]:
    """Return the columns of each index of the tables that churn."""
    with psycopg.connect(database) as session:
        return dict(session.execute(COLUMNS, [[f"pgqueue_{table}" for table in CHURNING]]).fetchall())


@pytest.mark.parametrize("verb", VERBS)
def test_plans_read_no_more_than_what_is_new(
    queue: Session, record_plans: RecordPlans, columns: dict[str, list[str]], verb: str
) -> None:
    plans = plans_of(queue, record_plans, verb)

    for plan in plans:
        for node in nodes(plan["Plan"]):
            # It reads all that the index has before anything is sorted or limited.
            assert node["Node Type"] != "Bitmap Index Scan", f"{node} in\n{plan['Query Text']}"
            if node.get("Index Name") in columns:
                entered = columns[node["Index Name"]][: ENTERED.get(node["Index Name"])]
                assert is_bounded(node, entered), f"{node} in\n{plan['Query Text']}"
                hits, loops = node["Shared Hit Blocks"], max(1, node["Actual Loops"])
                assert hits / loops <= HITS + 3 * node["Actual Rows"] or node["Index Name"] == WALKED, (
                    f"{node} in\n{plan['Query Text']}"
                )
    largest = max(plan["Plan"]["Shared Hit Blocks"] for plan in plans)
    assert largest <= BUFFERS, f"{largest} buffers"
