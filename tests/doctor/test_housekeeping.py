from __future__ import annotations

import pytest

from django_pgqueue import dequeue, enqueue, sweep
from django_pgqueue.models import Schedule, Worker
from tests.doctor.conftest import Examine
from tests.support.sessions import Connect
from tests.support.sql import sql


def test_a_worker_that_was_not_heard_of(found: Examine) -> None:
    Worker.objects.create(name="w\x1b[2J", hostname="host-7", pid=4711, queues=["default"], concurrency=1, version="0")
    assert found("housekeeping") == {}
    sql("UPDATE pgqueue_worker SET heartbeat_at = clock_timestamp() - interval '3 minutes'")
    finding = found("housekeeping")["worker_silent"]
    assert (finding.facts["hostname"], finding.facts["pid"]) == ("host-7", 4711)
    assert 180 <= finding.facts["seconds"] < 240
    assert finding.problem.isprintable()
    assert finding.severity.word == "warning"
    sql("UPDATE pgqueue_worker SET heartbeat_at = clock_timestamp() - interval '2 hours'")
    assert found("housekeeping")["worker_silent"].severity.word == "note"
    Worker.objects.all().delete()
    assert found("housekeeping") == {}


def test_a_worker_that_gives_many_messages_back(found: Examine) -> None:
    worker = Worker.objects.create(name="w", hostname="h", pid=1, queues=["default"], concurrency=1, version="0")
    for totals, expected in (
        ({"completed": 4000, "lease_lost": 9, "given_back": 1000}, True),
        ({"completed": 5000, "given_back": 1000}, False),
        ({"completed": 10, "given_back": 999}, False),
        ("made up", False),
    ):
        worker.totals = totals
        worker.save()
        assert ("given_back" in found("housekeeping")) is expected, totals
    worker.totals = {"completed": 10, "retried": 5, "given_back": 2000}
    worker.save()
    assert found("housekeeping")["given_back"].facts == {"worker": "w", "messages": 2000, "settled": 15}


def test_a_worker_that_is_paused(found: Examine) -> None:
    Worker.objects.create(name="w", hostname="h", pid=1, queues=["default"], concurrency=1, version="0")
    sql("UPDATE pgqueue_worker SET paused_at = clock_timestamp()")
    assert found("housekeeping")["worker_paused"].severity.word == "note"


def test_leases_that_are_not_swept(found: Examine) -> None:
    enqueue("h")
    dequeue()
    sql("UPDATE pgqueue_message SET lease_expires_at = clock_timestamp() - interval '30 seconds'")
    assert "lease_expired" not in found("housekeeping")
    sql("UPDATE pgqueue_message SET lease_expires_at = clock_timestamp() - interval '5 minutes'")
    assert found("housekeeping")["lease_expired"].severity.word == "critical"
    sweep()
    assert "lease_expired" not in found("housekeeping")


def test_no_worker_runs_maintenance(connect: Connect, found: Examine) -> None:
    sql("UPDATE pgqueue_floor SET ticked_at = clock_timestamp() - interval '10 minutes'")
    assert found("housekeeping") == {}, "an empty queue needs no worker"
    enqueue("h")
    assert 600 <= found("housekeeping")["no_tick"].facts["seconds"] < 660
    sql("SELECT pgqueue_tick()")
    assert found("housekeeping") == {}


@pytest.mark.parametrize("field", ["enabled", "removed_at"])
def test_schedules_that_are_late(found: Examine, field: str) -> None:
    Schedule.objects.create(name="nightly", handler="report", cron="@daily")
    sql("UPDATE pgqueue_schedule SET next_fire_at = clock_timestamp() - interval '5 minutes'")
    assert found("housekeeping")["schedule_late"].facts["shown"] == ["nightly"]
    sql(f"UPDATE pgqueue_schedule SET {'enabled = false' if field == 'enabled' else 'removed_at = clock_timestamp()'}")
    assert found("housekeeping") == {}


def test_schedules_that_cannot_fire(found: Examine) -> None:
    Schedule.objects.create(name="nightly", handler="report", cron="@daily")
    sql("UPDATE pgqueue_schedule SET last_error = 'channel nowhere does not exist'")
    finding = found("housekeeping")["schedule_failing"]
    assert finding.facts["shown"] == ["nightly"]
    assert "SELECT name, last_error FROM pgqueue_schedule" in finding.action
    assert "nowhere" not in finding.problem + finding.action, "the doctor shows no error"
    sql("UPDATE pgqueue_schedule SET last_error = ''")
    assert found("housekeeping") == {}
