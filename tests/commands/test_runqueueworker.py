"""The options of the command; what a worker does with them is in tests/worker."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from django_pgqueue.management.commands import runqueueworker
from tests.support.cases import cases


def run(*arguments: str) -> None:
    call_command("runqueueworker", *arguments, skip_checks=True)


@cases(
    ("arguments", "problem"),
    [
        (["--concurrency", "0"], "0 is not at least 1"),
        (["--batch", "-3"], "-3 is not at least 1"),
        (["--lease", "0"], "0 is not more than zero"),
        (["--lease", "nan"], "nan is not a duration"),
        (["--poll-interval", "soon"], "soon is not a duration"),
        (["--once", "--drain"], "not allowed with"),
        (["--queue", ""], "an empty name is not a queue"),
        (["--queue", "default", "--queue", " "], "an empty name is not a queue"),
        (["--exclude-queue", ""], "an empty name is not a queue"),
        (["--queue", "a", "--exclude-queue", "a"], "leaves no queue to serve"),
        (["--database", "elsewhere"], "There is no database 'elsewhere' in DATABASES"),
        (["--processes", "-1"], "-1 is not at least 0"),
        (["--processes", "0", "--reload"], "it needs --processes 1 or more"),
        (["--probe-port", "web"], "web is not a port"),
        (["--heartbeat-file", "/no/such/folder/file"], "does not exist"),
    ],
)
@pytest.mark.django_db
def test_bad_options_are_named(arguments: list[str], problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        run(*arguments)


@pytest.mark.parametrize(("pool", "concurrency"), [(True, 5), ({"min_size": 2, "max_size": 3}, 4)])
def test_a_pool_that_is_too_small_is_named_before_it_deadlocks(settings: Any, pool: Any, concurrency: int) -> None:
    connection = connections["default"]
    before = connection.settings_dict["OPTIONS"]
    connection.settings_dict["OPTIONS"] = {**before, "pool": pool}
    try:
        with pytest.raises(CommandError, match=f"--concurrency is {concurrency}"):
            runqueueworker.check_pool("default", concurrency)
        runqueueworker.check_pool("default", 3)
    finally:
        connection.settings_dict["OPTIONS"] = before


@pytest.mark.django_db
def test_processes_need_to_find_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")
    with pytest.raises(CommandError, match="DJANGO_SETTINGS_MODULE, which is not set"):
        run()
