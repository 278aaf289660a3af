from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from django_pgqueue.models import Worker
from tests.admin.conftest import act, address, logged, notices
from tests.support.cases import cases


@pytest.fixture
def worker(db: None) -> Worker:
    values: dict[str, Any] = {
        "running": [{"id": 4711, "seconds": 12.5, "seconds_left": None}],
        "totals": {"completed": 98},
        "memory_bytes": 50 * 2**20,
        "supervisor": "host:7",
    }
    return Worker.objects.create(
        name="host:8", hostname="host", pid=8, queues=["default"], concurrency=4, version="1", **values
    )


def test_the_state_of_a_worker_is_shown(admin_client: Client, worker: Worker) -> None:
    listed = admin_client.get(address("worker")).content.decode()
    assert "50.0\N{NO-BREAK SPACE}MB" in listed
    assert "1\N{NO-BREAK SPACE}/\N{NO-BREAK SPACE}4" in listed
    shown = admin_client.get(address("worker", worker.pk)).content.decode()
    for text in ("4711", "98", "host:7", "running"):
        assert text in shown


def test_running_messages_and_totals_are_shown_as_tables(admin_client: Client, worker: Worker) -> None:
    worker.running = [
        {"id": 4711, "seconds": 72.5, "seconds_left": 57.5}, {"id": 12, "seconds": 0.25, "seconds_left": None},
    ]  # fmt: skip
    worker.totals = {"lease_lost": 1, "completed": 12_345, "invented": 7}
    worker.save()
    shown = admin_client.get(address("worker", worker.pk)).content.decode()
    running, totals = (part.split("</table>")[0] for part in shown.split('<table class="pgqueue-table">')[1:])
    assert f'href="{address("message", 4711)}">#4711</a>' in running
    # No message has these ids, so there is no channel.
    assert re.findall(r"<td>([^<]+)", running) == [
        "-", "1\N{NO-BREAK SPACE}min\N{NO-BREAK SPACE}12\N{NO-BREAK SPACE}s", "58\N{NO-BREAK SPACE}s",
        "-", "250\N{NO-BREAK SPACE}ms", "-",
    ]  # fmt: skip
    assert re.findall(r"<td>(?:<span[^>]*>)?([^<]+)", totals) == [
        "completed", "12,345", "lease lost", "1", "invented", "7",
    ]  # fmt: skip


@cases(("running", "totals"), [([], {}), ("nonsense", [1]), ([1, None], 5), ([{}], {"completed": "x"})])
def test_a_row_of_another_shape_is_shown_nevertheless(
    admin_client: Client, worker: Worker, running: Any, totals: Any
) -> None:
    Worker.objects.filter(pk=worker.pk).update(running=running, totals=totals)
    assert admin_client.get(address("worker")).status_code == 200
    assert admin_client.get(address("worker", worker.pk)).status_code == 200


def test_pause_and_resume(admin_client: Client, worker: Worker) -> None:
    assert 'name="reason"' in act(admin_client, "worker", "pause", worker.pk).content.decode()
    assert Worker.objects.get().paused_at is None
    response = act(admin_client, "worker", "pause", worker.pk, confirmed="yes", reason="a look at its memory")
    assert notices(response) == "1 worker is paused."
    paused = Worker.objects.get()
    assert paused.paused_at is not None
    assert "a look at its memory" in admin_client.get(address("worker")).content.decode()
    act(admin_client, "worker", "pause", worker.pk, confirmed="yes", reason="longer")
    assert Worker.objects.get().paused_at == paused.paused_at
    assert notices(act(admin_client, "worker", "resume", worker.pk)) == "1 worker is resumed."
    assert (Worker.objects.get().paused_at, Worker.objects.get().pause_reason) == (None, "")
    assert [text for _worker, text, _user in logged()] == ["Paused: a look at its memory", "Paused: longer", "Resumed."]


def test_resume_leaves_workers_alone_that_are_not_paused(admin_client: Client, worker: Worker) -> None:
    assert notices(act(admin_client, "worker", "resume", worker.pk)) == "0 workers are resumed."
    assert logged() == []
