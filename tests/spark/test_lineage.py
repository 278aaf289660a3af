"""OpenLineage events: a catalogue hears of each run, and the run never depends on it."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from django_pgqueue.spark import schema
from django_pgqueue.spark.cli import COMMANDS, main
from django_pgqueue.spark.lineage import FLOWS
from tests.spark.report.metrics import lake_of, metric, of_each_grain
from tests.spark.report.test_report import NOON
from tests.spark.rows import fill_archive, fill_dead_letters
from tests.support.sessions import Session as Database


def events_in(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for event in found:
        check(event)
    return found


def check(event: dict[str, Any]) -> None:
    """Check what the specification asks of each event."""
    assert set(event) == {"eventType", "eventTime", "producer", "schemaURL", "run", "job", "inputs", "outputs"}
    assert event["eventType"] in {"START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"}
    assert datetime.fromisoformat(event["eventTime"]).tzinfo
    assert event["schemaURL"].endswith("#/$defs/RunEvent")
    uuid.UUID(event["run"]["runId"])
    assert set(event["job"]) == {"namespace", "name"}
    for dataset in (*event["inputs"], *event["outputs"]):
        assert {"namespace", "name"} <= set(dataset) <= {"namespace", "name", "facets", "outputFacets"}
        for kind in ("facets", "outputFacets"):
            for facet in dataset.get(kind, {}).values():
                assert re.fullmatch(
                    r"https://openlineage\.io/spec/facets/\d-\d-\d/(\w+)\.json#/\$defs/\1", facet["_schemaURL"]
                )
                assert facet["_producer"] == event["producer"]


def rows_written(event: dict[str, Any]) -> dict[str, int]:
    return {
        dataset["name"].rpartition("/")[2]: dataset["outputFacets"]["outputStatistics"]["rowCount"]
        for dataset in event["outputs"]
        if "outputFacets" in dataset
    }


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return lake_of(tmp_path / "lake", of_each_grain(metric(NOON, completed=1))).path


def test_an_export_says_what_it_read_and_how_much_it_wrote(
    dsn: str, database: Database, lake: Path, tmp_path: Path
) -> None:
    fill_archive(database, 30)
    fill_dead_letters(database, 4)
    log = tmp_path / "events"
    for _ in range(2):
        assert main(["export", "--lake", str(lake), "--source", dsn, "--lineage", str(log)]) == 0

    start, complete, _, again = events_in(log)
    assert [event["eventType"] for event in (start, complete)] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == complete["run"]["runId"] != again["run"]["runId"]
    assert complete["job"] == {"namespace": "pgqueue", "name": "pgqueue.lake.export"}
    tables = [dataset["name"].split(".")[1:] for dataset in complete["inputs"]]
    assert tables == [["public", table] for table in schema.SOURCES.values()]
    assert complete["inputs"][0]["namespace"].startswith("postgres://")
    assert [dataset["name"] for dataset in complete["outputs"]] == [f"{lake}/{table}" for table in schema.SOURCES]
    assert rows_written(complete) == {"archive": 30, "dead_letter": 4, "channel": 1}
    assert rows_written(again) == rows_written(start) == {}
    fields = complete["outputs"][0]["facets"]["schema"]["fields"]
    assert {"name": "archived_at", "type": "timestamp[us, tz=UTC]"} in fields


def test_a_run_that_fails_says_why_and_shows_no_secret(small: Path, tmp_path: Path) -> None:
    log = tmp_path / "events"
    source = "postgresql://reader:canary@127.0.0.1:1/nowhere"

    assert main(["rollup", "--lake", str(small), "--source", source, "--lineage", str(log)]) == 1

    start, fail = events_in(log)
    assert (start["eventType"], fail["eventType"]) == ("START", "FAIL")
    assert "cannot be reached" in fail["run"]["facets"]["errorMessage"]["message"]
    assert fail["inputs"][0] == {"namespace": "postgres://127.0.0.1:1", "name": "nowhere.public.pgqueue_message"}
    assert "canary" not in log.read_text()


def test_an_interrupted_run_is_aborted(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import django_pgqueue.spark.report as report

    def interrupt(args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "run", interrupt)
    log = tmp_path / "events"

    assert main(["report", "--lake", str(small), "--lineage", str(log)]) == 130

    assert [event["eventType"] for event in events_in(log)] == ["START", "ABORT"]


@contextmanager
def catalogue(status: int = 201) -> Iterator[tuple[str, list[tuple[str | None, Any]]]]:
    """A server on the loopback that keeps the key and the body of each request."""
    kept: list[tuple[str | None, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.append((self.headers["Authorization"], json.loads(body)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api/v1/lineage", kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_events_are_sent_to_an_address_with_the_key(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "canary")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "shop")
    with catalogue() as (address, kept):
        monkeypatch.setenv("PGQUEUE_LINEAGE", address)
        assert main(["report", "--lake", str(small), "--output", str(tmp_path / "report.html")]) == 0

    assert [(key, event["eventType"]) for key, event in kept] == [
        ("Bearer canary", "START"), ("Bearer canary", "COMPLETE"),
    ]  # fmt: skip
    for _, event in kept:
        check(event)
    assert kept[0][1]["job"] == {"namespace": "shop", "name": "pgqueue.lake.report"}


@pytest.mark.parametrize("broken", ["refused", "an error", "a folder that is not there"])
def test_a_run_goes_on_when_its_events_cannot_be_delivered(
    small: Path, tmp_path: Path, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "report.html"
    with catalogue(500) as (address, _):
        target = {"refused": "http://user:canary@127.0.0.1:1/", "an error": address}.get(broken, "/missing/events")
        assert main(["report", "--lake", str(small), "--output", str(output), "--lineage", target]) == 0

    assert output.exists()
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" was")[0] for line in lines] == ["The lineage event START", "The lineage event COMPLETE"]
    assert "canary" not in "".join(lines)


def test_each_command_that_reads_or_writes_has_its_tables() -> None:
    assert {*FLOWS} == {*COMMANDS} - {"run", "verify"}
