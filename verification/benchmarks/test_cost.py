"""The figures of `make cost`: what is counted, the ratios and budgets, and where the time is looked for."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from verification.benchmarks.cluster import Cluster, throw_away
from verification.benchmarks.cost import loop, statements, stations
from verification.benchmarks.cost.budgets import Budget, Results, budgets
from verification.benchmarks.cost.command import SETTINGS
from verification.benchmarks.cost.report import costs
from verification.benchmarks.cost.statements import Function, Profile, Statement
from verification.benchmarks.cost.stations import ROW, Calls, Station, of_ours
from verification.benchmarks.design import CHANNEL_ROW, PGQUEUE
from verification.benchmarks.measure import fresh

OURS = of_ours(PGQUEUE)
SOURCE = """
BEGIN
    -- The first line.
    SELECT t.id, t.name
      INTO v_id, v_name
      FROM things AS t
     WHERE t.kind = 'a ''thing''' AND t.size > 10;
    UPDATE things SET size = 3 WHERE id = v_id;
END
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with throw_away(**SETTINGS, **statements.preload()) as started:
        for calls in (OURS, ROW):
            calls.design.prepare(started)
        yield started


def station(calls: Calls, name: str, channels: int) -> Station:
    return Station(name, calls, channels, 0, lambda run: {})


def results(*spent: tuple[Calls, str, dict[str, float]]) -> Results:
    found = Results()
    for calls, name, micros in spent:
        found.add(station(calls, name, 1), micros)
    return found


THREE = {"dequeue": 20.0, "complete": 10.0, "enqueue": 10.0}
OF_OURS = {**THREE, "INSERT": 50.0, "plain INSERT": 20.0}


def test_a_budget_says_whether_it_is_met_and_else_by_how_much_it_is_missed() -> None:
    assert str(Budget("work", 1.1, 1.1)) == "work: 1.10, budget 1.1: met"
    assert str(Budget("work", 2.2, 1.1)) == "work: 2.20, budget 1.1: MISSED by 2.00x"


def test_the_budgets_compare_all_three_verbs_a_batch_and_an_insert() -> None:
    one = results((OURS, "one a call", OF_OURS), (ROW, "one a call", THREE))
    one.add(station(OURS, "50 a call", 1), {"dequeue": 11.0, "complete": 5.0})
    values = [budget.value for budget in budgets(one, PGQUEUE.name, CHANNEL_ROW.name)]
    assert values == [1.0, 16.0 / 20.0, 50.0 / 20.0]


def test_a_ratio_is_the_median_of_the_ratios_of_one_round() -> None:
    found = Results()
    for slow in (1, 10, 1):
        found.add(station(OURS, "one a call", 1), {verb: 2 * slow * micros for verb, micros in OF_OURS.items()})
        found.add(station(ROW, "one a call", 1), {verb: slow * micros for verb, micros in THREE.items()})
    assert found.ratio("one a call", PGQUEUE.name, CHANNEL_ROW.name, 1, "dequeue") == 2.0


def test_a_cost_that_was_not_measured_is_an_empty_cell_and_no_budget() -> None:
    only = results((OURS, "one a call", THREE))
    assert budgets(only, PGQUEUE.name, CHANNEL_ROW.name) == []
    text = costs(only, [PGQUEUE.name, CHANNEL_ROW.name], CHANNEL_ROW.name, markdown=True)
    assert "| 1 | one a call: dequeue | 20.0 |  |  |  |" in text
    assert "| 1 | one a call: enqueue + dequeue + complete | 40.0 |" in text


def test_a_statement_is_found_in_the_function_that_holds_it() -> None:
    profile = Profile((Function("other", 1, 1, 1, "BEGIN\nEND"), Function("work", 1, 1, 1, SOURCE)), (), frozenset())
    blanked = "SELECT t.id, t.name                   FROM things AS t WHERE t.kind = $4 AND t.size > $5"
    assert profile.place(Statement(blanked, 1, 1)) == "work:3"
    assert profile.place(Statement("UPDATE things SET size = $1 WHERE id = v_id", 1, 1)) == "work:7"
    assert profile.place(Statement("DELETE FROM things", 1, 1)) == ""


def test_a_statement_that_calls_functions_or_fires_triggers_is_marked() -> None:
    profile = Profile((Function("work", 1, 1, 1, SOURCE),), (), frozenset({"INSERT things"}))
    for text, marked in (
        ("SELECT work(1)", True),
        ("INSERT INTO things VALUES (1)", True),
        ("DELETE FROM things", False),
        ("SELECT length(x)", False),
    ):
        assert profile.calls_others(Statement(text, 1, 1)) == marked


@pytest.mark.parametrize("calls", [OURS, ROW], ids=lambda calls: calls.name)
def test_each_verb_of_a_design_is_measured(cluster: Cluster, calls: Calls) -> None:
    spent = [found.visit(cluster) for found in stations.stations([calls], turns=20)]
    assert {verb for one in spent for verb in one} >= {"dequeue", "complete", "enqueue", "empty dequeue"}
    assert all(micros > 0 for one in spent for micros in one.values())


def test_the_database_of_a_benchmark_has_no_limit_that_all_messages_pay_for(cluster: Cluster) -> None:
    # A handler of a benchmark that declares a breaker would put it there: with one, each dequeue asks for limits.
    with fresh(cluster, PGQUEUE, channels=1) as run:
        assert run.connection.execute("SELECT count(*) FROM pgqueue_limit").fetchone() == (0,)


def test_a_loop_that_finds_no_message_is_an_error(cluster: Cluster) -> None:
    idle = Station("idle", OURS, 1, 0, lambda run: stations.take(run, (OURS.take[0], "NULL"), 5))
    with pytest.raises(RuntimeError, match="0 of 6 messages were completed"):
        idle.visit(cluster)


def test_each_call_of_a_loop_is_a_transaction_of_its_own_the_warm_up_too(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        connection.execute("CREATE TEMP TABLE made AS SELECT 0 AS n, pg_current_xact_id() AS transaction WHERE false")
        loop.run(connection, {"call": "INSERT INTO made VALUES (n, pg_current_xact_id())"}, turns=10)
        made = connection.execute("SELECT count(*), max(n), count(DISTINCT transaction::text) FROM made").fetchone()
    assert made == (12, 12, 12)


def test_the_statements_of_the_line_are_counted(cluster: Cluster) -> None:
    if not statements.preload():
        pytest.skip("this PostgreSQL has no pg_stat_statements")
    profile = statements.take(cluster, stations.one(OURS, 1, 20))
    calls = {function.name: function.calls for function in profile.functions}
    assert calls["pgqueue_dequeue"] == calls["pgqueue_complete"] == loop.calls(20)
    assert {"pgqueue_complete", "pgqueue_dequeue"} <= {
        profile.place(statement).partition(":")[0] for statement in profile.statements
    }
    assert "pgqueue_dequeue" in statements.tables(profile, 20, markdown=True)


def test_a_server_that_cannot_count_statements_is_said(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "preload", dict)
    assert statements.report(cluster, OURS, 10, markdown=False) == statements.MISSING


def test_a_statement_that_fails_ends_the_run(cluster: Cluster) -> None:
    with cluster.connect() as connection, pytest.raises(psycopg.errors.DivisionByZero):
        loop.run(connection, {"broken": "PERFORM 1 / 0"}, turns=1)
