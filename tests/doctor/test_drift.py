from __future__ import annotations

from typing import Any

from tests.doctor.conftest import Examine
from tests.support.cases import cases
from tests.support.sql import sql

THROWAWAY = {"pgqueue.W010", "pgqueue.W011"}


@cases(
    ("trouble", "code", "severity"),
    [
        ("CREATE OR REPLACE FUNCTION pgqueue_wake(p_queue text) RETURNS void LANGUAGE sql AS ''", "E012", 2),
        ("DROP FUNCTION pgqueue_peek", "E011", 2),
        ("ALTER TABLE pgqueue_message DISABLE TRIGGER ALL", "E016", 2),
        ("ALTER TABLE pgqueue_lane SET (autovacuum_enabled = false)", "W017", 1),
        ("ALTER TABLE pgqueue_dead_letter SET UNLOGGED", "W019", 1),
        ("GRANT CREATE ON SCHEMA public TO PUBLIC", "W018", 1),
        ("ALTER TABLE pgqueue_lane REPLICA IDENTITY DEFAULT; CREATE PUBLICATION everything FOR ALL TABLES", "E029", 2),
    ],
)
def test_each_finding_of_the_system_checks_is_reported_with_an_action(
    found: Examine, trouble: str, code: str, severity: int
) -> None:
    sql("SAVEPOINT healthy")
    sql(trouble)
    reported = found("drift")
    assert set(reported) - THROWAWAY == {f"pgqueue.{code}"}
    assert reported[f"pgqueue.{code}"].severity == severity
    assert reported[f"pgqueue.{code}"].action
    sql("ROLLBACK TO SAVEPOINT healthy")
    assert set(found("drift")) <= THROWAWAY


def test_a_check_that_the_project_has_silenced_is_not_reported(found: Examine, settings: Any) -> None:
    sql("ALTER TABLE pgqueue_lane SET (autovacuum_enabled = false)")
    settings.SILENCED_SYSTEM_CHECKS = ["pgqueue.W017"]
    assert set(found("drift")) <= THROWAWAY


def test_migrations_of_the_pipeline_that_were_not_applied(found: Examine) -> None:
    """The queue works without them, so it is a warning; what they would make is not called missing."""
    sql("DROP FUNCTION pgqueue_is_exported")
    assert "pgqueue.E011" in found("drift")
    sql("DELETE FROM django_migrations WHERE app = 'pgqueue_pipeline'")
    findings = found("drift")
    assert set(findings) - THROWAWAY == {"not_migrated"}
    assert findings["not_migrated"].severity.word == "warning"
    assert "2 of 2 migrations of django_pgqueue.pipeline" in findings["not_migrated"].problem


def test_a_migration_that_was_not_applied(found: Examine) -> None:
    sql("DROP FUNCTION pgqueue_peek")
    sql("DELETE FROM django_migrations WHERE app = 'pgqueue' AND name LIKE '0003%%'")
    assert set(found("drift")) - THROWAWAY == {"not_migrated"}
