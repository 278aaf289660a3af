"""The command. The findings themselves are tested in tests/doctor."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connections

from django_pgqueue import Breaker, breaker_open, breaker_set, channel_set, enqueue
from tests.support.commands import status_and_output_of
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[int, str]:
    return status_and_output_of("pgqueue", "doctor", *arguments, skip_checks=True)


@pytest.fixture(autouse=True)
def _channel() -> None:
    channel_set(channel="default", max_size=10)


def test_nothing_to_tell() -> None:
    assert run("--only", "counters", "--only", "indexes") == (0, "0 critical, 0 warning, 0 note\n")


def test_a_note_is_no_reason_to_fail() -> None:
    sql("ALTER TABLE pgqueue_lane RESET (fillfactor)")
    status, printed = run("--only", "vacuum")
    assert status == 0
    assert printed.startswith("NOTE      vacuum_settings\n")
    assert printed.endswith("0 critical, 0 warning, 1 note\n")


def test_the_status_is_that_of_the_worst() -> None:
    enqueue("h")
    sql("UPDATE pgqueue_channel_size SET live = 7")
    assert run("--only", "counters")[0] == 1
    assert run("--only", "counters", "--only", "waiting")[0] == 2


def test_for_programs() -> None:
    enqueue("h")
    status, printed = run("--only", "waiting", "--json")
    document = json.loads(printed)
    assert (status, document["version"], document["status"], document["severity"]) == (2, 1, 2, "critical")
    assert document["repaired"] is None
    [finding] = document["findings"]
    assert sorted(finding) == ["action", "code", "facts", "problem", "severity"]
    assert (finding["code"], finding["severity"], finding["facts"]) == ("no_worker", "critical", {"queue": "default"})


def test_it_mends_only_with_the_option() -> None:
    enqueue("h")
    sql("UPDATE pgqueue_channel_size SET live = 7")
    for _ in range(2):
        assert run("--only", "counters")[0] == 1
    status, printed = run("--only", "counters", "--fix")
    assert (status, printed.splitlines()[0]) == (0, "repaired: 1 counts, 0 lease floors, 0 places")
    assert json.loads(run("--only", "counters", "--fix", "--json")[1])["repaired"] == {
        "counts": 0,
        "lease_floors": 0,
        "places": 0,
    }


@pytest.fixture
def nowhere() -> Any:
    connections.settings["nowhere"] = {**connections.settings["default"], "PORT": "1", "HOST": "127.0.0.1"}
    yield "nowhere"
    del connections["nowhere"]
    del connections.settings["nowhere"]


def test_without_a_connection_it_says_so(nowhere: str, django_db_blocker: Any) -> None:
    with pytest.raises(CommandError, match="There is no database 'elsewhere'") as raised:
        run("--database", "elsewhere")
    assert raised.value.returncode == 3
    with django_db_blocker.unblock(), pytest.raises(CommandError, match="The database 'nowhere' refuses") as raised:
        run("--database", nowhere)
    assert raised.value.returncode == 3


def test_one_finding_can_be_asked_for_by_its_code() -> None:
    breaker_set("mail", Breaker())
    breaker_open("mail")
    enqueue("mail")
    status, printed = run("--only", "breaker_open", "--json")
    assert [finding["code"] for finding in json.loads(printed)["findings"]] == ["breaker_open"]
    assert status == 0
    with pytest.raises(CommandError, match="'breaker_opened' is no examination and no finding"):
        run("--only", "breaker_opened")
