"""The adapter for the public harness speaks its protocol: a conversation that was recorded, and a real one."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from django_pgqueue.embedded import temporary_cluster
from tests.support.paths import REPOSITORY
from tests.support.sessions import one
from tests.support.waiting import eventually
from verification.benchmarks.cluster import Cluster, postmaster
from verification.benchmarks.harness import adapter
from verification.benchmarks.harness.adapter import Meter, Settings, asked_for, own_pace, samples

MANIFEST = json.loads((Path(adapter.__file__).parent / "adapter.json").read_text())
REQUIRED = {"claim_p50_ms", "claim_p95_ms", "claim_p99_ms", "enqueue_rate", "completion_rate", "queue_depth"}
SYSTEM = MANIFEST["system"]

# A conversation of ten seconds at 100 jobs a second: what was enqueued, when each job began, and what is then printed.
RECORDED = [
    '{"t": "2026-04-17T09:00:10.000Z", "system": "pgqueue-django", "kind": "adapter", "subject_kind": "adapter", '
    f'"subject": "", "metric": "{metric}", "value": {value}, "window_s": {window}, "instance_id": 0}}'
    for metric, value, window in (
        ("claim_p50_ms", 50.0, 30.0),
        ("claim_p95_ms", 95.0, 30.0),
        ("claim_p99_ms", 99.0, 30.0),
        ("enqueue_rate", 100.0, 10.0),
        ("completion_rate", 90.0, 10.0),
        ("queue_depth", 100.0, 0.0),
        ("producer_target_rate", 100.0, 0.0),
    )
]


def test_a_recorded_conversation_is_answered_in_the_same_words() -> None:
    settings, meter = Settings.of({"PRODUCER_RATE": "100", "SAMPLE_EVERY_S": "10"}), Meter()
    meter.take(now=0.0)
    for number in asked_for(io.StringIO("ENQUEUE 600\nHELLO\nENQUEUE x\nENQUEUE 400\n")):
        meter.enqueued += number
    for wait in range(101):
        meter.started(now=5.0, milliseconds=wait)
    meter.completed += 900
    metrics = meter.take(now=10.0) | {"queue_depth": (100, 0.0), "producer_target_rate": (settings.rate_now(), 0.0)}
    began = 1_776_416_410.0
    assert [json.dumps(record) for record in samples(SYSTEM, settings, metrics, began)] == RECORDED


def test_latencies_older_than_the_window_are_forgotten() -> None:
    meter = Meter()
    meter.started(now=0.0, milliseconds=500)
    meter.started(now=40.0, milliseconds=2)
    assert meter.take(now=45.0)["claim_p99_ms"] == (2, 30.0)


def test_only_the_first_of_several_processes_reports_what_is_the_same_for_all() -> None:
    second = Settings.of({"BENCH_INSTANCE_ID": "1"})
    records = list(samples(SYSTEM, second, {"queue_depth": (1, 0.0), "enqueue_rate": (1.0, 5.0)}, 0.0))
    assert [(record["metric"], record["instance_id"]) for record in records] == [("enqueue_rate", 1)]


def paced(settings: Settings, seconds: float, call_takes: float = 0.0, depth: int = 0) -> int:
    """Return how many jobs are enqueued in so many seconds of a clock that only calls and pauses move."""
    now, number, stop = [0.0], 0, threading.Event()

    def wait(pause: float) -> None:
        now[0] += pause

    for batch in own_pace(settings, lambda: depth, stop, clock=lambda: now[0], wait=wait):
        number += batch
        now[0] += call_takes
        if now[0] >= seconds or settings.mode == "depth-target":
            stop.set()
    return number


@pytest.mark.parametrize("call_takes", [0.0, 0.05])
def test_slow_calls_do_not_lower_the_offered_rate(call_takes: float) -> None:
    settings = Settings.of({"PRODUCER_RATE": "500", "PRODUCER_BATCH_MS": "10"})
    assert paced(settings, 10, call_takes) == pytest.approx(5_000, rel=0.02)


def test_a_depth_is_filled_up_and_not_exceeded() -> None:
    settings = Settings.of({"PRODUCER_MODE": "depth-target", "TARGET_DEPTH": "1000", "PRODUCER_BATCH_MAX": "128"})
    assert paced(settings, 1, depth=0) == 128
    assert paced(settings, 1, depth=990) == 10


def test_the_rate_follows_its_file(tmp_path: Path) -> None:
    file = tmp_path / "rate"
    settings = Settings.of({"PRODUCER_RATE": "5", "PRODUCER_RATE_CONTROL_FILE": str(file)})
    assert settings.rate_now() == 5
    file.write_text("7\n")
    assert settings.rate_now() == 7


GRACE_SECONDS = 10.0  # between SIGTERM and SIGKILL, by the harness


@contextmanager
def adapter_on(cluster: Cluster, database: str) -> Iterator[subprocess.Popen[str]]:
    """The adapter as the harness starts it."""
    variables = {
        "PYTHONPATH": str(REPOSITORY),
        "DJANGO_SETTINGS_MODULE": "verification.benchmarks.settings",
        "DATABASE_URL": cluster.url(database),
        "SCENARIO": "long_horizon",
        "PRODUCER_PACING": "harness",
        "PRODUCER_RATE": "50",
        "SAMPLE_EVERY_S": "1",
        "WORKER_COUNT": "4",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "verification.benchmarks.harness"],
        cwd=REPOSITORY,
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_run_is_sampled_and_ends_within_the_grace_of_the_harness() -> None:
    records: list[dict[str, Any]] = []
    with temporary_cluster() as server:
        cluster = Cluster(server, postmaster(server), Path("pgbench is not used"))
        cluster.create_database("bench")
        with adapter_on(cluster, "bench") as process:
            reader = threading.Thread(target=lambda: records.extend(map(json.loads, process.stdout or ())))
            reader.start()
            eventually(lambda: len(records) > 7, seconds=60)
            assert process.stdin is not None
            process.stdin.write("ENQUEUE 20\n" * 10)
            process.stdin.flush()
            eventually(lambda: any(r["metric"] == "completion_rate" and r["value"] for r in records[1:]), seconds=60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(GRACE_SECONDS) == 0
            reader.join(GRACE_SECONDS)
        with cluster.connect("bench") as connection:
            assert one(connection, "SELECT count(*) FROM pgqueue_archived_message") == 200
            for name in MANIFEST["event_tables"] + MANIFEST["event_indexes"]:
                assert one(connection, "SELECT to_regclass(%s) IS NOT NULL", name), name
    first, *rest = records
    assert (first["kind"], first["db_name"], first["event_tables"]) == ("descriptor", "bench", MANIFEST["event_tables"])
    assert {record["metric"] for record in rest} >= REQUIRED
    assert all(record["system"] == SYSTEM and record["kind"] == "adapter" for record in rest)
    assert max(record["value"] for record in rest if record["metric"] == "claim_p99_ms") > 0
