"""The holders of dead rows: each is another session, a prepared transaction, a slot or a standby, for real."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from django_pgqueue.doctor import Severity
from django_pgqueue.embedded import temporary_cluster
from tests.doctor.conftest import Elsewhere, Examine
from tests.support.sessions import Connect
from tests.support.sql import sql
from tests.support.waiting import eventually
from verification.chaos.pair import DATABASE, configure, server_pair

NOW = {"old_transaction": timedelta(0)}


def test_an_old_snapshot_of_another_session(connect: Connect, found: Examine) -> None:
    session = connect(application_name="nightly dump")
    session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    session.execute("SELECT 'canary-of-a-query'")
    finding = found("horizon", **NOW)["old_transaction"]
    assert finding.severity == Severity.WARNING
    assert finding.facts["pid"] == session.info.backend_pid
    assert finding.facts["application_name"] == "nightly dump"
    assert finding.facts["state"] == "idle in transaction"
    assert finding.facts["seconds"] > 0
    assert "canary" not in repr(finding)
    assert found("horizon", old_transaction=timedelta(hours=1)) == {}
    assert found("horizon", **NOW, very_old_transaction=timedelta(0))["old_transaction"].severity == Severity.CRITICAL
    sql(finding.action.partition("end it: ")[2].partition(".")[0])
    eventually(lambda: found("horizon", **NOW) == {})


def test_a_transaction_that_has_written_and_has_no_snapshot(connect: Connect, found: Examine) -> None:
    session = connect()
    session.execute("CREATE TEMPORARY TABLE mine (id integer)")
    assert found("horizon", **NOW)["old_transaction"].facts["pid"] == session.info.backend_pid
    session.rollback()
    assert found("horizon", **NOW) == {}


def test_a_role_that_may_not_see_other_sessions_reads_so(connect: Connect, found: Examine) -> None:
    connect().execute("SELECT pg_current_xact_id()")
    sql("CREATE ROLE pgqueue_test_shortsighted")
    try:
        sql("SET ROLE pgqueue_test_shortsighted")
        assert list(found("horizon", **NOW)) == ["sessions_hidden"]
        sql("RESET ROLE; GRANT pg_read_all_stats TO pgqueue_test_shortsighted; SET ROLE pgqueue_test_shortsighted")
        assert list(found("horizon", **NOW)) == ["old_transaction"]
    finally:
        sql("RESET ROLE; DROP ROLE pgqueue_test_shortsighted")


def test_a_prepared_transaction_and_a_slot_that_are_not_used(elsewhere: Elsewhere, found: Examine) -> None:
    with (
        temporary_cluster(settings={"max_prepared_transactions": "2"}) as cluster,
        elsewhere(cluster.url("postgres")) as using,
        psycopg.connect(cluster.url("postgres"), autocommit=True) as session,
    ):
        session.execute("BEGIN; CREATE TABLE t (id integer); PREPARE TRANSACTION 'of a manager'")
        session.execute("SELECT pg_create_physical_replication_slot('left', true)")
        session.execute("CREATE TABLE wal AS SELECT generate_series(1, 1000)")
        findings = found("horizon", using=using, **NOW, slot_bytes=1000)
        assert sorted(findings) == ["prepared_transaction", "slot_left"]
        assert findings["prepared_transaction"].facts["gid"] == "of a manager"
        assert findings["slot_left"].facts["bytes"] > 1000
        assert found("horizon", using=using) == {}
        session.execute("ROLLBACK PREPARED 'of a manager'")
        session.execute(findings["slot_left"].action.partition("slot is not needed: ")[2].rstrip("."))
        assert found("horizon", using=using, **NOW, slot_bytes=1000) == {}


@pytest.mark.timeout(180)
def test_a_query_on_a_standby_with_and_without_a_slot(elsewhere: Elsewhere, found: Examine) -> None:
    with server_pair() as pair, elsewhere(pair.primary.url(DATABASE)) as using:
        configure(pair.standby, "wal_receiver_status_interval", "1")
        configure(pair.standby, "hot_standby_feedback", "on")
        with (
            psycopg.connect(pair.primary.url(DATABASE), autocommit=True) as primary,
            psycopg.connect(pair.standby.url(DATABASE)) as query,
        ):
            query.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            query.execute("SELECT 1")
            for code in ("standby_behind", "slot_behind"):
                for _ in range(20):
                    primary.execute("SELECT pg_current_xact_id()")
                eventually(lambda code=code: list(found("horizon", using=using, old_xids=10)) == [code])
                if code == "standby_behind":
                    primary.execute("SELECT pg_create_physical_replication_slot('standby')")
                configure(pair.standby, "primary_slot_name", "standby")
            query.rollback()
            eventually(lambda: found("horizon", using=using, old_xids=10) == {})
