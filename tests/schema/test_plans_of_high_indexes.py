"""C9: each look at the line enters its own index, however high dead entries have made it.

The planner adds the height of an index to its price. With one lane, all indexes of lanes look alike but for that, and
while a snapshot stays open they grow at different speeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.schema.calls import COLUMNS, RecordPlans, is_bounded, nodes
from tests.support.databases import migrated
from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, enqueue, fill, make_channel, tick

pytestmark = [pytest.mark.auto_explain, pytest.mark.django_db]

TURNS = """
DO $$
BEGIN
    FOR v_turn IN 1..5000 LOOP
        UPDATE pgqueue_lane SET seq = nextval('pgqueue_lane_seq') WHERE ctid = (
            SELECT l.ctid FROM pgqueue_lane AS l WHERE l.queue = 'default' AND l.parked_until IS NULL AND NOT l.fresh
                AND l.seq = (SELECT q.last_value FROM pgqueue_lane_seq AS q));
    END LOOP;
END;
$$
"""
HEIGHT = "SELECT (bt_metap(%s)).level"


def height(session: Session, index: str) -> int:
    return one(session, HEIGHT, f"pgqueue_lane_{index}")


@pytest.fixture
def session(environment: dict[str, str], pg_url: str, django_db_blocker: Any) -> Iterator[Session]:
    """A queue with one channel, whose lane had so many turns beside a snapshot that the index of the head is higher."""
    with (
        migrated("pgqueue_high", pg_url, environment) as url,
        psycopg.connect(url) as reader,
        psycopg.connect(url, autocommit=True) as session,
    ):
        session.execute("ALTER TABLE pgqueue_lane SET (autovacuum_enabled = false)")
        session.execute("CREATE EXTENSION IF NOT EXISTS pageinspect")
        make_channel(session, "default")
        fill(session, "default", 100)
        for _ in range(2):
            dequeue(session)
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM pgqueue_message")
        while height(session, "head") <= height(session, "channel"):
            session.execute(TURNS)
        tick(session, 2)
        session.execute("ANALYZE pgqueue_lane")
        yield session


def test_the_line_is_entered_by_its_own_index(session: Session, record_plans: RecordPlans) -> None:
    columns = dict(session.execute(COLUMNS, [["pgqueue_lane", "pgqueue_arrival"]]).fetchall())
    plans = record_plans(session)
    enqueue(session)
    for limit in (1, 1, 50):
        assert dequeue(session, limit)
    tick(session)
    seen = [node for plan in plans for node in nodes(plan["Plan"]) if node.get("Index Name") in columns]
    assert {"pgqueue_lane_head", "pgqueue_lane_channel"} <= {node["Index Name"] for node in seen}
    assert [node for node in seen if not is_bounded(node, columns[node["Index Name"]])] == []
