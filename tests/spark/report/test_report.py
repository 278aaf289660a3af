"""The page says what the lake's metrics say, and a name never leaves its place."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Semaphore
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.charts import value_text
from django_pgqueue.spark.cli import main
from django_pgqueue.spark.erase import erase
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.export.job import export
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.report.read import Subject, read
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.transforms.rollup import rollup
from tests.spark.report.metrics import lake_of, metric, of_each_grain
from tests.spark.report.page import Page, reported
from tests.spark.rows import DAY, fill_archive, fill_dead_letters

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOSTILE = """</title></style><script>alert("1")</script><img src=x onerror='alert(2)'>&amp;"""


def three_levels(bucket_at: datetime, queue: str, channel: str, handler: str, **columns: object) -> list[dict]:
    return [
        metric(bucket_at, queue, capacity_share=1.0, **columns),
        metric(bucket_at, queue, channel, capacity_share=1.0, **columns),
        metric(bucket_at, queue, channel, handler, capacity_share=1.0, **columns),
    ]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A queue with 90 completed and 10 dead, a second one with one; all in one minute."""
    rows = three_levels(
        NOON, "mail", "acme", "shop.confirm",
        enqueued=100, completed=90, dead=10, attempts=120, retries=20, run_seconds=40.0, retry_seconds=10.0,
        wait_p50_seconds=0.25, wait_p95_seconds=2.0, wait_p99_seconds=3.0, run_p95_seconds=0.5,
        sla_seconds=1.0, sla_breaches=25, dead_by_reason={"failed": 7, "poison": 3},
        retries_by_reason={"TimeoutError": 20},
    )  # fmt: skip
    rows += three_levels(NOON, "slow", "default", "shop.report", enqueued=1, completed=1, attempts=1)
    lake_of(tmp_path / "lake", of_each_grain(*rows))
    return tmp_path / "lake"


def test_each_message_is_counted_once_although_it_is_in_rows_of_three_levels(small: Path) -> None:
    page = reported(small)

    mail = ["100", "10", "20", "40 s", "100 %", "10 s", "25", "250 ms", "2 s", "3 s", "500 ms"]
    slow = ["1", "0", "0", "0", "–", "0", "0", "–", "–", "–", "–"]
    assert page.tables["Queues"][1:] == [["mail", *mail], ["slow", *slow[:4], "0 %", *slow[5:]]]
    assert page.tables["Channels"][1:] == [["mail", "acme", *mail], ["slow", "default", *slow]]
    assert page.tables["Handlers"][1:] == [["mail", "shop.confirm", *mail], ["slow", "shop.report", *slow]]
    assert "101 messages were settled." in page.text


def test_a_bucket_tells_its_numbers(small: Path) -> None:
    page = reported(small)

    assert "21 Nov 2026 12:00 UTC\ncompleted: 91\ndead letters: 10\nenqueued: 101" in page.text
    assert "21 Nov 2026 12:00 UTC\nmail / acme: 40 s" in page.text
    assert "21 Nov 2026 12:00 UTC\np50: 250 ms\np95: 2 s\np99: 3 s" in reported(small, queues=["mail"]).text


def test_a_rollup_that_is_due_is_reported(small: Path) -> None:
    assert "since the last rollup" not in reported(small).text

    with Lake.open(small).writing() as writing:
        path = writing.stage("archive", "day=2026-11-21")
        pq.write_table(pa.table({"id": [1]}), path)
        state = {"exported_at": "2026-11-21T12:34:56+00:00"}
        writing.commit("archive", "export", [writing.staged(path)], transaction=("pgqueue", 4711), state=state)

    assert "Exported 21 Nov 2026 12:34. More was exported since the last rollup." in reported(small).text


def test_one_queue_can_be_chosen(small: Path) -> None:
    page = reported(small, queues=["slow"])

    assert [row[0] for row in page.tables["Queues"][1:]] == ["slow"]
    assert "mail" not in page.text


def test_the_newest_days_are_shown(tmp_path: Path) -> None:
    rows = [metric(NOON - timedelta(days=days), completed=10**days) for days in range(4)]
    lake_of(tmp_path / "lake", of_each_grain(*rows))

    assert [row[1] for row in reported(tmp_path / "lake", days=2).tables["Queues"][1:]] == ["11"]
    assert "20 Nov 2026 – 21 Nov 2026" in reported(tmp_path / "lake", days=2).text


@pytest.mark.parametrize(
    ("apart", "grain", "buckets"),
    [
        (timedelta(0), "minute", 12),
        (timedelta(minutes=90), "minute", 91),
        (timedelta(hours=7), "hour", 12),
        (timedelta(days=15), "hour", 361),
        (timedelta(days=40), "day", 41),
    ],
)
def test_the_grain_fits_the_period(tmp_path: Path, apart: timedelta, grain: str, buckets: int) -> None:
    rows = of_each_grain(metric(NOON - apart, completed=2), metric(NOON, completed=3))
    if not apart:
        rows = of_each_grain(metric(NOON, completed=5))
    lake = lake_of(tmp_path / "lake", rows)
    data = read(lake.path, Subject(), 50)

    assert (data.grain, len(data.times)) == (grain, buckets)
    assert sum(data.by_bucket["completed"].to_pylist()) == 5


def test_hostile_names_are_text_everywhere_and_nothing_is_loaded_or_run(tmp_path: Path) -> None:
    rows = three_levels(
        NOON, f"q{HOSTILE}", f"c{HOSTILE}", f"h{HOSTILE}",
        enqueued=3, completed=2, dead=1, attempts=4, retries=1, run_seconds=2.0, retry_seconds=1.0, sla_seconds=1.0,
        wait_p95_seconds=1.0, sla_breaches=1, dead_by_reason={f"r{HOSTILE}": 1}, retries_by_reason={f"e{HOSTILE}": 1},
    )  # fmt: skip
    lake_of(tmp_path / "lake", of_each_grain(*rows))

    page = reported(tmp_path / "lake")

    assert not page.tags & {"script", "img", "iframe", "object", "embed", "link", "form", "base", "image", "use"}
    assert not {name for name in page.attributes if name.startswith("on")} | {"src", "style"} & set(page.attributes)
    assert "href" not in page.attributes
    assert not re.search(r"url\(|@import|https?:", page.style)
    for name in "qchre":
        assert f"{name}{HOSTILE}" in page.text


def test_the_policy_of_the_page_allows_its_own_style_and_nothing_else(small: Path) -> None:
    page = reported(small)

    [policy] = (value for value in page.attributes["content"] if "default-src" in value)
    digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_an_empty_lake_has_a_report_that_says_what_to_do(tmp_path: Path) -> None:
    Lake.open(tmp_path / "lake", create=True)

    assert "Run export and rollup" in reported(tmp_path / "lake").text


def test_the_command_needs_no_spark_and_tells_no_secret(small: Path, tmp_path: Path) -> None:
    script = "import sys; sys.modules['pyspark'] = None; from django_pgqueue.spark.cli import main; sys.exit(main())"
    output = tmp_path / "page.html"
    done = subprocess.run(
        [sys.executable, "-c", script, "report", "--lake", small, "--output", output],
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), "PGQUEUE_SOURCE": "postgresql://a:canary@localhost/x"},
        capture_output=True,
        text=True,
        timeout=280,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert str(output) in done.stdout
    assert "canary" not in output.read_text() + done.stdout


def days_of_channels(at: datetime, channels: dict[str, dict[str, Any]], **columns: Any) -> list[dict[str, Any]]:
    """The rows of the queue mail in one minute: its own, those of its channels, and those of a handler in each."""
    counts = {
        name: sum(row.get(name, 0) for row in channels.values())
        for name in ("completed", "dead", "retry_seconds", "sla_breaches", "run_seconds")
    }
    rows = [metric(at, "mail", **counts, **columns)]
    for name, values in channels.items():
        rows += [metric(at, "mail", name, **values), metric(at, "mail", name, "shop.confirm", **values)]
    return rows


@pytest.fixture
def four_days(tmp_path: Path) -> Path:
    """Two days after two others."""
    before = {"acme": {"completed": 50, "run_seconds": 20.0}, "bolt": {"completed": 100, "run_seconds": 30.0}}
    now = {
        "acme": {"completed": 180, "dead": 20, "retry_seconds": 30.0, "run_seconds": 100.0, "sla_breaches": 25},
        "bolt": {"completed": 40, "run_seconds": 50.0},
        "crow": {"completed": 5},
    }
    rows = []
    for number, channels in enumerate((before, before, now, now)):
        at = NOON - timedelta(days=3 - number)
        reasons = {"dead_by_reason": {"failed": 20}, "retries_by_reason": {"TimeoutError": 7}} if number > 1 else {}
        rows += days_of_channels(at, channels, **reasons)
    return lake_of(tmp_path / "lake", of_each_grain(*rows)).path


def sentences(page: Page) -> str:
    return page.text.partition("What happened")[2].partition("Throughput")[0]


def test_each_sentence_has_its_number(four_days: Path) -> None:
    assert sentences(reported(four_days, days=2)) == (
        "490 messages were settled. The last 2 days that are over had 63 % more than the 2 days before (490, before "
        "300)."
        "40 messages died, 8.2 % of the settled ones; most in mail / acme (40), and most for the reason failed (40)."
        "Failed attempts cost 60 s, 20 % of the time in handlers; most of it mail / shop.confirm (60 s). Most retries "
        "followed TimeoutError (14)."
        "50 messages broke the promise (SLA) of their queue or channel, 10 % of the settled ones; most in mail / acme "
        "(50)."
        "Of 3 channels, mail / acme (200 s) used most of the time in handlers: 67 %."
    ).replace("200 s", "3.33 min")


def test_what_did_not_happen_has_no_sentence(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", of_each_grain(*three_levels(NOON, "mail", "acme", "shop.confirm", completed=1)))

    assert sentences(reported(lake.path)) == "1 messages were settled."


def test_a_day_that_is_not_over_is_not_compared(four_days: Path) -> None:
    with Lake.open(four_days).writing() as writing:
        writing.commit("archive", "export", state={"exported_at": (NOON + timedelta(hours=1)).isoformat()})

    said = "The last day that are over had 63 % more than the day before (245, before 150)."
    assert said.replace("day that are", "day that is") in sentences(reported(four_days, days=1))


# An hour, and the hours around it, of the channel quiet and of another one in its queue.
USUAL: dict[str, Any] = {
    "completed": 10, "enqueued": 10, "attempts": 10, "run_seconds": 4.0, "run_p95_seconds": 1.0,
    "wait_p95_seconds": 1.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("other", "its", "why"),
    [
        ({"run_seconds": 16.0}, {}, "mail / loud had 80 % of the time in handlers"),
        ({}, {"enqueued": 40}, "it got 4.0 times as many messages as usual"),
        ({}, {"attempts": 20, "retries": 10}, "50 % of its attempts failed"),
        ({}, {"run_p95_seconds": 3.0}, "its handlers took up to 3 s (p95), usually 1 s"),
        ({}, {}, "limits, pauses, or too few workers: the metrics name no other"),
    ],
)
def test_who_got_slow_is_said_with_since_when_and_why(
    tmp_path: Path, other: dict[str, Any], its: dict[str, Any], why: str
) -> None:
    rows = []
    for number in range(9):
        slow = number in (5, 6)
        quiet = USUAL | ({"wait_p95_seconds": number * 1.5, "sla_breaches": 3} | its if slow else {})
        loud = USUAL | {"run_seconds": 3.0, "wait_p95_seconds": 1.9 if slow else 1.0} | (other if slow else {})
        rows += days_of_channels(NOON + timedelta(hours=number), {"quiet": quiet, "loud": loud})
    lake = lake_of(tmp_path / "lake", of_each_grain(*rows))

    assert (
        "mail / quiet got slow on 21 Nov 2026 17:00, for 2 hours: its wait p95 was up to 9 s, usually 1 s; 20 messages "
        f"were settled meanwhile, 6 broke their promise. Why: {why}."
    ) in sentences(reported(lake.path))
    assert "loud got slow" not in reported(lake.path).text


def test_the_page_of_a_channel_has_its_numbers_and_no_name_of_another(four_days: Path) -> None:
    page = reported(four_days, queues=["mail"], channel="acme", days=2)

    assert "Report of acme" in page.text
    assert sentences(page).startswith("400 messages were settled. The last 2 days that are over had 4.0 times as many")
    assert page.tables["Channels"][1][:4] == ["mail", "acme", "400", "40"]
    assert page.tables["Handlers"][1][:4] == ["mail", "shop.confirm", "400", "40"]
    assert "Queues" not in page.tables
    for other in ("bolt", "crow", "490"):
        assert other not in page.text


def test_a_channel_that_the_lake_does_not_know_is_an_error(four_days: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PipelineError, match="no metrics of the channel 'acme' of the queue 'default'"):
        reported(four_days, queues=["default"], channel="acme")
    assert main(["report", "--lake", str(four_days), "--queue", "a", "--queue", "b", "--channel", "acme"]) == 1
    assert "give --queue once" in capsys.readouterr().err


def test_a_period_without_metrics_by_minute_is_shown_by_hour(tmp_path: Path) -> None:
    rows = of_each_grain(metric(NOON, completed=1))
    lake = lake_of(tmp_path / "lake", [row for row in rows if row["grain"] != "minute"])

    assert "Plots by hour" in reported(lake.path).text


REPORTS = 8


def test_an_older_file_has_nothing_in_a_column_that_it_lacks(small: Path) -> None:
    for file in Lake.open(small).paths("metrics"):
        with pq.ParquetFile(file) as old:
            rows = old.read().drop_columns(["sla_seconds", "sla_breaches", "dead_by_reason"])
        pq.write_table(rows, file)

    page = reported(small)

    assert "SLA)" not in page.text
    assert page.tables["Queues"][1][:3] == ["mail", "100", "10"]


def test_a_damaged_file_is_named(small: Path) -> None:
    [file] = [file for file in Lake.open(small).paths("metrics") if "grain=day" in file.parts]
    file.write_bytes(file.read_bytes()[:-20])

    with pytest.raises(PipelineError, match=re.escape(str(file))):
        reported(small)


def test_an_unknown_queue_is_refused(small: Path) -> None:
    with pytest.raises(PipelineError, match="no metrics of the queue 'nobody'"):
        reported(small, queues=["nobody", "mail"])


@pytest.mark.parametrize(("until", "days"), [(10, 1), (-1, 7), (400, 7)])
def test_a_period_without_metrics_is_refused_and_the_days_that_have_some_are_named(
    tmp_path: Path, until: int, days: int
) -> None:
    rows = [metric(NOON + timedelta(days=day), completed=1) for day in (0, 1, 2, 20)]
    lake = lake_of(tmp_path / "lake", of_each_grain(*rows))
    last = (NOON + timedelta(days=until)).date()
    first = f"{last - timedelta(days=days - 1)} to " if days > 1 else ""
    said = (
        f"The lake has no metrics of {first}{last}. It has those of 2026-11-21 to 2026-11-23, 2026-12-11: choose with "
        "--until and --days, or run rollup."
    )

    with pytest.raises(PipelineError, match=f"^{re.escape(said)}$"):
        reported(lake.path, until=last, days=days)


def test_a_last_day_without_metrics_ends_a_period_that_has_some(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", of_each_grain(metric(NOON, completed=3)))

    page = reported(lake.path, until=(NOON + timedelta(days=2)).date(), days=3)

    assert page.tables["Queues"][1][:2] == ["mail", "3"]


def test_a_place_that_cannot_be_written_is_named(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for output in (tmp_path / "missing" / "report.html", tmp_path):
        assert main(["report", "--lake", str(small), "--output", str(output)]) == 1
        assert f"{output} cannot be written" in capsys.readouterr().err

    assert not list(tmp_path.glob("*.tmp"))


def test_a_report_is_of_one_commit_while_a_rollup_replaces_files(tmp_path: Path) -> None:
    rows = of_each_grain(*(metric(NOON - timedelta(days=day), completed=1) for day in range(2)))
    lake = lake_of(tmp_path / "lake", rows)

    begun = Semaphore(0)

    def replace() -> None:
        for number in range(REPORTS):
            begun.acquire()
            time.sleep(number % 5 / 100)
            lake_of(lake.path, [row | {"completed": number + 2} for row in rows], replace=True)

    with ThreadPoolExecutor(1) as pool:
        replacing = pool.submit(replace)
        totals = []
        try:
            for _ in range(REPORTS):
                begun.release()
                [row] = reported(lake.path).tables["Queues"][1:]
                totals.append(int(row[1]))
        finally:
            # After a failure the other one may not wait for ever.
            begun.release(REPORTS)
        replacing.result()

    assert len(set(totals)) > 1
    assert not [total for total in totals if total % 2]


@pytest.mark.parametrize("times", [1, 100])
def test_a_report_reads_again_what_an_erase_has_replaced_and_gives_up_at_last(
    small: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """An erase deletes replaced files at once, here just before the report reads one."""
    read, channels = pq.read_table, iter([*["acme"] * times, *["nobody"] * 100])

    def erased_first(path: Path, **options: Any) -> Any:
        monkeypatch.setattr(pq, "read_table", read)
        erased = next(channels)
        erase(lake, "mail", erased)
        if times > 1:
            lake_of(small, of_each_grain(metric(NOON, "mail", "acme", completed=1)))
        monkeypatch.setattr(pq, "read_table", erased_first)
        return read(path, **options)

    lake = Lake.open(small)
    monkeypatch.setattr(pq, "read_table", erased_first)

    if times == 1:
        assert [row[1] for row in reported(small).tables["Channels"][1:]] == ["default"]
    else:
        with pytest.raises(PipelineError, match=r"was changed again and again .* \(5 tries\): run it again"):
            reported(small)


SETTLED = """
WITH settled AS (
    SELECT channel, created_at, dequeue_at, leased_at, archived_at AS settled_at, false AS dead
    FROM pgqueue_archived_message
    UNION ALL
    SELECT channel, created_at, dequeue_at, leased_at, dead_at, true FROM pgqueue_dead_letter
)
"""
WAITS = """
SELECT extract(epoch FROM wait)::float8
FROM unnest((
    SELECT percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY leased_at - dequeue_at) FROM settled
)) AS wait
"""
TENANTS = """
SELECT channel, count(*)::text, (count(*) FILTER (WHERE dead OR settled_at - created_at > interval '2.5 seconds'))::text
FROM settled GROUP BY channel ORDER BY channel
"""


def test_the_page_says_what_the_tables_say(
    spark: Any, source: Source, database: psycopg.Connection[Any], lake: Path
) -> None:
    leased_at = "{dequeue_at} + (i * 7919 % 1009) * interval '1 millisecond'"
    fill_archive(database, 900, leased_at=leased_at, channel="CASE WHEN i % 4 = 0 THEN 'a/b=<c>' ELSE 'acme' END")
    fill_dead_letters(database, 100, leased_at=leased_at, channel="'acme'", reason="'poison'")
    export(source, lake)
    rollup(spark, Lake.open(lake), {"default": timedelta(seconds=2, milliseconds=500)})

    page = reported(lake)

    [queue] = page.tables["Queues"][1:]
    assert queue[:4] == ["default", "1,000", "100", "0"]
    assert queue[8:11] == [value_text(wait, "seconds") for (wait,) in database.execute(SETTLED + WAITS)]
    assert (
        sorted((row[1], row[2], row[8]) for row in page.tables["Channels"][1:])
        == database.execute(SETTLED + TENANTS).fetchall()
    )
    assert f"{DAY:%d %b %Y}" in page.text


def test_the_times_are_named_for_what_they_show(source: Source, database: psycopg.Connection[Any], lake: Path) -> None:
    """A message that a worker leased ahead waits until its handler starts, and runs from there."""
    fill_archive(
        database,
        10,
        started_at="{leased_at} + interval '10 seconds'",
        archived_at="{leased_at} + interval '310 seconds'",
    )
    export(source, lake)
    assert main(["rollup", "--lake", str(lake)]) == 0

    page = reported(lake)

    [queue] = page.tables["Queues"][1:]
    assert (queue[8], queue[11]) == ("11 s", "5 min")
    assert "Waitfrom due to the start of the handler" in page.text
