"""The page says what the lake's metrics say, and a name never leaves its place."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.report.read import COMPARED, read_report_data
from django_pgqueue.spark.report.sections.tenants import noisy
from django_pgqueue.spark.schema import arrow_schema
from tests.spark.report.metrics import lake_of, metric, of_each_grain
from tests.spark.report.page import reported
from tests.support.cases import cases

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

    assert page.tables["Queues, busiest first"][1:] == [
        ["mail", "90", "10", "10 %", "20", "250 ms", "2 s", "3 s", "", "500 ms"],
        ["slow", "1", "0", "0 %", "0", "–", "–", "–", "", "–"],
    ]
    assert page.tables["Channels by time in handlers"][1] == [
        "mail", "acme", "100 %", "100", "10", "20", "10 s (25 %)", "2 s",
    ]  # fmt: skip
    assert page.tables["Handlers"][1] == ["mail", "shop.confirm", "120", "20", "10", "40 s", "10 s", "25 %"]
    assert page.tables["Channels with an SLA"][1:] == [["mail", "acme", "1 s", "100", "25", "75 %", ""]]
    assert re.search(r"Enqueued\s*101", page.text)


def test_a_bucket_tells_its_numbers(small: Path) -> None:
    page = reported(small)

    assert "21 Nov 2026 12:00 UTC\ncompleted: 90\ndead letters: 10\nenqueued: 100" in page.text
    assert "21 Nov 2026 12:00 UTC\nfailed: 7\npoison: 3" in page.text
    assert "21 Nov 2026 12:00 UTC\nTimeoutError: 20" in page.text


def test_the_lake_is_described(small: Path) -> None:
    lake = Lake.open(small)
    page = reported(small)

    rows = {row[0]: row for row in page.tables[f"The lake {lake.description.name}"]}
    assert rows["metrics"][1:3] == ["1", "3"]
    assert rows["archive"][1:3] == ["0", "0"]


def test_a_rollup_that_is_due_is_reported(small: Path) -> None:
    assert "of all that is here" in reported(small).text

    with Lake.open(small).writing() as writing:
        path = writing.stage("archive", "day=2026-11-21")
        pq.write_table(pa.table({"id": [1]}), path)
        state = {"exported_at": "2026-11-21T12:34:56+00:00"}
        writing.commit("archive", "export", [writing.staged(path)], transaction=("pgqueue", 4711), state=state)

    page = reported(small)
    assert "more was exported since" in page.text
    assert re.search(r"21 Nov 2026 12:34\s*transactions before 4711", page.text)


def test_one_queue_can_be_chosen(small: Path) -> None:
    page = reported(small, queues=["slow"])

    assert [row[0] for row in page.tables["Queues, busiest first"][1:]] == ["slow"]
    assert "mail" not in page.text


def test_the_newest_days_are_shown(tmp_path: Path) -> None:
    rows = [metric(NOON - timedelta(days=days), completed=10**days) for days in range(4)]
    lake_of(tmp_path / "lake", of_each_grain(*rows))

    assert [row[1] for row in reported(tmp_path / "lake", days=2).tables["Queues, busiest first"][1:]] == ["11"]
    assert "20 Nov 2026 – 21 Nov 2026" in reported(tmp_path / "lake", days=2).text


def test_times_at_the_ends_of_the_calendar_do_not_hide_the_others(tmp_path: Path) -> None:
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    lake_of(tmp_path / "lake", of_each_grain(*(metric(time, completed=1) for time in (first, NOON, last))))
    lake_of(tmp_path / "old", of_each_grain(metric(first, completed=2)))
    lake_of(tmp_path / "future", of_each_grain(metric(last, completed=3)))

    for lake, day in (("lake", "21 Nov 2026"), ("old", "01 Jan 1"), ("future", "31 Dec 9999")):
        page = reported(tmp_path / lake)
        assert len(page.tables["Queues, busiest first"]) == 2
        assert day in page.text.partition("Summary")[0]


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

    def files(grain: str, days: Sequence[date]) -> list[Path]:
        return [file for file in lake.paths("metrics", days) if f"grain={grain}" in file.parts]

    data = read_report_data(files, [(NOON - timedelta(days=number)).date() for number in reversed(range(50))])

    assert (data.grain, len(data.times)) == (grain, buckets)
    assert sum(data.history["mail"]["completed"]) == 5


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
    assert all(target.startswith("#") for target in page.attributes["href"])
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


def test_a_noisy_neighbour_is_one_that_makes_others_wait() -> None:
    hours = [NOON + timedelta(hours=number) for number in range(7)]
    # Loud, and the others wait; loud, and no other waits; loud, and the others wait somewhat longer.
    special = {3: (0.8, 9.0), 4: (0.9, 1.0), 5: (0.9, 1.9)}
    rows = []
    for number, hour in enumerate(hours):
        share, wait = special.get(number, (0.3, 1.0))
        rows.append(metric(hour, "mail", "loud", capacity_share=share, wait_p95_seconds=20.0 * number))
        rows.append(metric(hour, "mail", "quiet", capacity_share=0.1, wait_p95_seconds=wait))
        rows.append(metric(hour, "mail", "quick", capacity_share=0.1, wait_p95_seconds=wait / 100))
        rows.append(metric(hour, "mail", "never", capacity_share=0.0, wait_p95_seconds=None))
        rows.append(metric(hour, "other", "quiet", capacity_share=0.2, wait_p95_seconds=wait))

    found = noisy(pa.Table.from_pylist(rows, arrow_schema("metrics")).select(COMPARED))

    [one] = found
    assert (one["bucket_at"], one["channel"], one["slowed"]) == (hours[3], "loud", 1)
    assert one["longest"]["channel"] == "quiet"


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


@cases("days", ["0", "-1", "x", "99999"])
def test_a_wrong_number_of_days_is_refused(small: Path, days: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "django_pgqueue.spark", "report", "--lake", small, "--days", days],
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=280,
    )

    assert done.returncode == 2
    assert "is not a number of days" in done.stderr
