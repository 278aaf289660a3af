"""Each worker says that a crash of the server would lose the live messages."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command

from django_pgqueue.maintenance.loop import MaintenanceLoop
from django_pgqueue.maintenance.reminder import Reminder


def choose(option: str) -> None:
    call_command("queuedurability", option, "--yes", stdout=StringIO(), skip_checks=True)


def test_it_warns_once_whenever_they_become_unlogged(caplog: pytest.LogCaptureFixture) -> None:
    reminder = Reminder()
    for option, warnings in (("--logged", 0), ("--unlogged", 1), ("--unlogged", 1), ("--logged", 1), ("--unlogged", 2)):
        choose(option)
        reminder.run_once("default")
        assert [record.event for record in caplog.records].count("unlogged") == warnings


def test_a_worker_warns_when_it_starts(caplog: pytest.LogCaptureFixture) -> None:
    choose("--unlogged")
    MaintenanceLoop("default").run_due()
    assert [record.event for record in caplog.records].count("unlogged") == 1
