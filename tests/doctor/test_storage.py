from __future__ import annotations

import pytest

from django_pgqueue.doctor import Finding, Limits, examine
from tests.support.sessions import Connect
from tests.support.sql import sql

ROWS = 5_000
FILL = (
    "INSERT INTO pgqueue_message (channel_id, handler) SELECT c.id, 'h'"
    " FROM pgqueue_channel AS c, generate_series(1, %s)"
)


@pytest.fixture
def churned(connect: Connect) -> object:
    """Many rows are dead; a session that keeps them is returned."""
    owner, pin = connect(autocommit=True), connect()
    owner.execute(FILL, [ROWS])
    pin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    pin.execute("SELECT 1")
    owner.execute("DELETE FROM pgqueue_message")
    owner.execute("VACUUM ANALYZE pgqueue_message")
    flush(owner)
    return pin


def flush(session: object) -> None:
    """Show the counts of a session to others at once, and not a second later."""
    session.execute("SELECT pg_stat_force_next_flush()")
    session.execute("SELECT 1")


def test_dead_rows_that_cannot_be_cleaned_up(connect: Connect, churned: object) -> None:
    [finding] = of_messages("storage", dead_rows=ROWS // 2)
    assert finding.code == "dead_rows"
    assert finding.facts["table"] == "pgqueue_message"
    assert finding.facts["dead"] >= ROWS
    assert finding.severity.word == "warning"
    [finding] = of_messages("storage", dead_rows=ROWS // 20)
    assert finding.severity.word == "critical"
    churned.rollback()
    owner = connect(autocommit=True)
    owner.execute("VACUUM pgqueue_message")
    flush(owner)
    assert of_messages("storage", dead_rows=ROWS // 2) == []


def test_tables_and_indexes_that_are_empty_and_large(connect: Connect, churned: object) -> None:
    owner = connect(autocommit=True)
    large = 100_000
    assert set(found_all("storage", bloat_bytes=large)) >= {
        ("table_bloat", "pgqueue_message"),
        ("index_bloat", "pgqueue_message_pkey"),
    }
    churned.rollback()
    owner.execute("VACUUM FULL pgqueue_message")
    flush(owner)
    assert found_all("storage", bloat_bytes=large) == []


def found_all(only: str, **limits: object) -> list[tuple[str, str]]:
    return [
        (finding.code, finding.facts.get("table") or finding.facts["index"]) for finding in of_messages(only, **limits)
    ]


def of_messages(only: str, **limits: object) -> list[Finding]:
    """Other tables may have dead rows of tests before."""
    findings = examine(limits=Limits(**limits), only=[only]).findings
    return [finding for finding in findings if "pgqueue_message" in finding.problem]


def test_rows_that_were_never_frozen(connect: Connect) -> None:
    owner = connect(autocommit=True)
    owner.execute("VACUUM (FREEZE) pgqueue_message")
    for _ in range(200):
        owner.execute("SELECT pg_current_xact_id()")
    assert found_all("storage", freeze_age=150) == [("freeze_late", "pgqueue_message")]
    sql("VACUUM (FREEZE) pgqueue_message")
    assert found_all("storage", freeze_age=150) == []
