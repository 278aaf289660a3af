from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from django_pgqueue.models import Worker
from tests.admin.conftest import act, address, logged, told


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


def test_what_a_worker_does_is_shown(admin_client: Client, worker: Worker) -> None:
    listed = admin_client.get(address("worker")).content.decode()
    assert "50.0\N{NO-BREAK SPACE}MB" in listed
    shown = admin_client.get(address("worker", worker.pk)).content.decode()
    for text in ("4711", "98", "host:7", "running"):
        assert text in shown


def test_pause_and_resume(admin_client: Client, worker: Worker) -> None:
    assert 'name="reason"' in act(admin_client, "worker", "pause", worker.pk).content.decode()
    assert Worker.objects.get().paused_at is None
    response = act(admin_client, "worker", "pause", worker.pk, confirmed="yes", reason="a look at its memory")
    assert told(response) == "1 worker is paused."
    paused = Worker.objects.get()
    assert paused.paused_at is not None
    assert "a look at its memory" in admin_client.get(address("worker")).content.decode()
    act(admin_client, "worker", "pause", worker.pk, confirmed="yes", reason="longer")
    assert Worker.objects.get().paused_at == paused.paused_at
    assert told(act(admin_client, "worker", "resume", worker.pk)) == "1 worker is resumed."
    assert (Worker.objects.get().paused_at, Worker.objects.get().pause_reason) == (None, "")
    assert [text for _worker, text, _user in logged()] == ["Paused: a look at its memory", "Paused: longer", "Resumed."]


def test_resume_leaves_workers_alone_that_are_not_paused(admin_client: Client, worker: Worker) -> None:
    assert told(act(admin_client, "worker", "resume", worker.pk)) == "0 workers are resumed."
    assert logged() == []
