"""Tasks on a worker of real processes, and what the admin shows of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from django_pgqueue.tasks.compat import TaskResult, TaskResultStatus
from tests.support.paths import REPOSITORY
from tests.support.waiting import eventually
from tests.tasks import defined

pytestmark = pytest.mark.usefixtures("queue")


def finished(result: TaskResult) -> bool:
    result.refresh()
    return result.is_finished


def test_a_worker_in_processes_runs_every_kind_of_task(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "django", "runqueueworker", "--processes=1", "--no-reload"]
    path = f"{REPOSITORY}:{REPOSITORY / 'testproject'}"
    variables = {"DJANGO_SETTINGS_MODULE": "tests.tasks.settings", "PYTHONPATH": path}
    worker = subprocess.Popen(
        command, env={**environment, **variables}, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True
    )
    try:
        plain, slow = defined.add.enqueue(1), defined.add_slowly.enqueue(2)
        elsewhere, atomic = defined.elsewhere.enqueue(), defined.write.enqueue("written")
        failed = defined.fail.enqueue("password=hunter2")
        for result in (plain, slow, elsewhere, atomic, failed):
            eventually(lambda result=result: finished(result))
    finally:
        worker.send_signal(signal.SIGTERM)
        _, log = worker.communicate(timeout=280)
        print(log)
    assert worker.returncode == 0, log
    assert (plain.return_value, slow.return_value, atomic.return_value) == (2, 3, "written")
    assert elsewhere.return_value not in (os.getpid(), worker.pid)
    assert failed.status == TaskResultStatus.FAILED
    assert "hunter2" not in log


def test_the_admin_shows_tasks_among_the_other_messages(client: Client) -> None:
    client.force_login(User.objects.create_superuser("staff"))
    result = defined.add.enqueue(1)
    assert "tests.tasks.defined.add" in client.get(reverse("admin:pgqueue_message_changelist")).content.decode()
    page = client.get(reverse("admin:pgqueue_message_change", args=[result.id])).content.decode()
    assert "tests.tasks.defined.add" in page
