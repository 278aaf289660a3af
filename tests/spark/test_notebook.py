"""The notebook of ten questions: each cell runs, and its answers are those of PostgreSQL."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.transforms.rollup import rollup
from tests.spark.rolling import SLA, fill_mixed
from tests.support.paths import REPOSITORY
from tests.support.sessions import Session as Database

NOTEBOOK = REPOSITORY / "examples" / "notebook" / "ten_questions.ipynb"
BY_HANDLER = """
SELECT handler, count(*),
    percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM archived_at - created_at)::float8),
    percentile_disc(0.95) WITHIN GROUP (ORDER BY extract(epoch FROM archived_at - created_at)::float8)
FROM pgqueue_archived_message WHERE leased_at IS NOT NULL GROUP BY handler ORDER BY 4 DESC, 1
"""
DEPTH = """
WITH messages AS (
    SELECT queue, created_at, archived_at AS ended_at FROM pgqueue_archived_message
    UNION ALL
    SELECT queue, created_at, dead_at FROM pgqueue_dead_letter
)
SELECT h.queue, h.bucket_at, (
    SELECT count(*) FROM messages AS m
    WHERE m.queue = h.queue AND m.created_at < h.bucket_at + interval '1 hour'
        AND m.ended_at >= h.bucket_at + interval '1 hour')
FROM (
    SELECT queue, date_trunc('hour', created_at) AS bucket_at FROM messages
    UNION
    SELECT queue, date_trunc('hour', ended_at) FROM messages
) AS h
ORDER BY h.queue, h.bucket_at
"""


def run_cells() -> dict[str, Any]:
    """Run the code cells one after the other, as Jupyter does. Returns the names that they have made."""
    names: dict[str, Any] = {}
    for number, cell in enumerate(json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "a notebook of the repository has no outputs"
            exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}, cell {number}", "exec"), names)
    return names


@pytest.fixture
def answers(
    spark: Any, source: Source, database: Database, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    fill_mixed(database)
    export(source, lake)
    rollup(spark, Lake.open(lake), SLA)
    monkeypatch.setenv("PGQUEUE_LAKE", str(lake))
    return run_cells()


def test_the_answers_are_those_of_the_database(answers: dict[str, Any], database: Database) -> None:
    def rows(name: str, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in answers[name][list(columns)].itertuples(index=False)]

    depth = [(queue, at.to_pydatetime(), n) for queue, at, n in rows("depth", "queue", "bucket_at", "depth")]
    assert depth == database.execute(DEPTH).fetchall()
    assert max(n for _, _, n in depth) > 0
    deaths = database.execute(
        "SELECT queue, handler, reason, count(*) FROM pgqueue_dead_letter GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3"
    ).fetchall()
    assert rows("deaths", "queue", "handler", "reason", "dead_letters") == deaths
    for found, true in zip(rows("features", "handler", "settled", "p50_seconds", "p95_seconds"),
                           database.execute(BY_HANDLER).fetchall(), strict=True):  # fmt: skip
        assert found == pytest.approx(true, abs=1e-5)
    settled = database.execute(
        "SELECT count(*) FILTER (WHERE outcome IN ('completed', 'popped')) FROM pgqueue_archived_message"
    ).fetchone()[0] + sum(n for *_, n in deaths)
    assert answers["growth"]["settled"].sum() == settled
    promised = answers["growth"].query("queue == 'default'")["settled"].sum()  # the other queue has no SLA
    assert answers["promises"]["settled"].sum() == promised
    assert answers["rhythm"]["enqueued"].sum() == 1800
    assert answers["capacity"].groupby("queue")["share"].sum().tolist() == pytest.approx([1, 1])
    assert answers["waits"]["wait_p95_seconds"].is_monotonic_decreasing
    assert (answers["cost"]["share"].dropna() <= 1).all()


def test_a_day_without_a_message_makes_no_cell_fail(
    spark: Any, source: Source, database: Database, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message only: most tables have one row or none."""
    from tests.spark.rows import DAY, fill_archive, fill_dead_letters

    fill_archive(database, 1)
    fill_dead_letters(database, 1, DAY + timedelta(days=2))
    export(source, lake)
    rollup(spark, Lake.open(lake))
    monkeypatch.setenv("PGQUEUE_LAKE", str(lake))

    answers = run_cells()

    assert len(answers["growth"]) == 2
    assert answers["noisy"].empty
