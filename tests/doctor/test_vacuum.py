from __future__ import annotations

from django.db import connections

from django_pgqueue.doctor.server import expected_options
from django_pgqueue.embedded import temporary_cluster
from tests.doctor.conftest import Elsewhere, Examine
from tests.support.sql import sql
from tests.support.waiting import eventually


def test_settings_that_were_reset(found: Examine) -> None:
    assert found("vacuum") == {}
    sql("ALTER TABLE pgqueue_lane RESET (autovacuum_vacuum_threshold), SET (fillfactor = 90)")
    finding = found("vacuum")["vacuum_settings"]
    assert finding.facts == {
        "table": "pgqueue_lane",
        "expected": {"fillfactor": "50", "autovacuum_vacuum_threshold": "500"},
        "found": {"fillfactor": "90", "autovacuum_vacuum_threshold": None},
    }
    sql(finding.action.partition(": ")[2])
    assert found("vacuum") == {}


def test_the_settings_of_all_tables_are_known() -> None:
    tables = "SELECT relname::text, reloptions FROM pg_class WHERE relname LIKE 'pgqueue%' AND relkind = 'r'"
    assert expected_options() == {
        table: dict(option.split("=") for option in options) for table, options in sql(tables) if options
    }


def test_a_server_that_naps_for_long(elsewhere: Elsewhere, found: Examine) -> None:
    naps = {"autovacuum_naptime": "5min"}
    with temporary_cluster(settings=naps) as cluster, elsewhere(cluster.url("postgres")) as using:
        assert found("vacuum", using=using)["vacuum_naps"].facts == {"seconds": 300}
        with connections[using].cursor() as cursor:
            cursor.execute("ALTER SYSTEM SET autovacuum_naptime = '1min'")
            cursor.execute("SELECT pg_reload_conf()")
        eventually(lambda: found("vacuum", using=using) == {})
