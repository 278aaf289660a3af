"""All examinations together."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from string import Formatter

import pytest
from django.core.management import call_command
from django.db import connection

from django_pgqueue import channel_set, complete, dequeue, enqueue, handlers
from django_pgqueue.checks.rules import Limits, parameters
from django_pgqueue.checks.server import SERVER, TABLES
from django_pgqueue.contrib.prometheus.families import families
from django_pgqueue.doctor import EXAMINATIONS, Severity, examine
from tests.doctor.conftest import Examine
from tests.support.cases import cases
from tests.support.sessions import Connect
from tests.support.sql import sql, value

# The servers of the tests trade safety for speed.
THROWAWAY = {"pgqueue.W010", "pgqueue.W011"}


@pytest.fixture
def _h() -> Iterator[None]:
    """An installed app has the handler h."""
    handlers.handler("h")(lambda delivery: None)
    yield
    handlers.unregister("h")


@pytest.mark.usefixtures("_h")
def test_a_queue_that_works_has_no_findings() -> None:
    channel_set(channel="limited", max_concurrency=2, max_size=10)
    for channel in ("default", "limited"):
        enqueue("h", channel=channel)
        enqueue("h", channel=channel)
    complete(dequeue())
    sql("SELECT pgqueue_tick()")
    report = examine()
    assert {finding.code for finding in report.findings if finding.severity} <= THROWAWAY | {"no_worker"}, report


def test_the_worst_comes_first() -> None:
    enqueue("h")
    sql("ALTER TABLE pgqueue_lane RESET (fillfactor)")
    sql("DROP FUNCTION pgqueue_peek")
    severities = [finding.severity for finding in examine().findings]
    assert severities == sorted(severities, reverse=True)
    assert {Severity.CRITICAL, Severity.NOTE} <= set(severities)


def test_an_examination_that_fails_is_a_finding_and_the_others_go_on(found: Examine) -> None:
    sql("ALTER TABLE pgqueue_floor RENAME TO pgqueue_elsewhere")
    report = examine(only=["clock", "archive", "notifications"])
    [finding] = report.findings
    assert (finding.code, finding.facts) == ("not_examined", {"examination": "clock"})
    assert 'relation "pgqueue_floor" does not exist' in finding.problem


def test_a_table_that_a_session_has_locked_is_not_waited_for_long(connect: Connect, found: Examine) -> None:
    session = connect()
    session.execute("LOCK TABLE pgqueue_floor IN ACCESS EXCLUSIVE MODE")
    assert "lock timeout" in found("clock")["not_examined"].problem
    session.rollback()
    assert found("clock") == {}


def test_the_transaction_of_the_caller_is_as_before() -> None:
    sql("SET LOCAL statement_timeout = '12345ms'")
    sql("SET LOCAL lock_timeout = '123ms'")
    examine()
    assert value("SELECT current_setting('statement_timeout')") == "12345ms"
    assert value("SELECT current_setting('lock_timeout')") == "123ms"


def test_a_reader_may_examine_and_measure() -> None:
    enqueue("h")
    role = "pgqueue_test_examiner"
    sql(f"CREATE ROLE {role}")
    call_command("pgqueue", "grant", "reader", role, stdout=StringIO(), skip_checks=True)
    sql(f"GRANT SELECT ON django_migrations TO {role}")
    sql(f"SET LOCAL ROLE {role}")
    try:
        codes = {finding.code for finding in examine().findings}
        measured = families()
    finally:
        sql("RESET ROLE")
    assert "no_worker" in codes
    assert "not_examined" not in codes
    assert measured


@cases("name", EXAMINATIONS)
def test_the_words_of_a_rule_name_what_its_statement_returns(name: str) -> None:
    given = parameters("default", Limits())
    rules = SERVER + TABLES if name == "drift" else EXAMINATIONS[name]
    for rule in (rule for rule in rules if isinstance(rule.source, str)):
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({rule.source}) AS r LIMIT 0", given)
            columns = {column.name for column in cursor.description}
        named = [field for text in (rule.problem, rule.action) for _, field, _, _ in Formatter().parse(text) if field]
        assert {field.partition("[")[0] for field in named} <= columns | set(given), rule.code
        assert set(rule.facts.split()) <= columns, rule.code
