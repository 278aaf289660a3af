"""A project without the app of the pipeline installs none of it, and everything else works: see without_pipeline.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from django_pgqueue.sql import files, roles

Told = dict[str, Any]

pytestmark = pytest.mark.django_db

PIPELINE = "django_pgqueue.pipeline"
INSTALL = f'Add "{PIPELINE}" to INSTALLED_APPS and run manage.py migrate.'


@pytest.fixture(scope="module")
def told(live_through: Callable[..., Told]) -> Told:
    return live_through("without_pipeline", without=[PIPELINE], urls="testproject.urls")


def test_none_of_its_tables_and_functions_is_there(told: Told) -> None:
    tables = {f"pgqueue_{table}" for table in roles.PIPELINE_TABLES}
    assert set(told["relations"]) & (tables | {"pgqueue_dead_letter_xid"}) == set()
    assert set(told["functions"]) == set(files.latest_functions([files.QUEUE]))
    assert {f"pgqueue_{table}" for table in roles.TABLES} <= set(told["relations"])


def test_nothing_is_missing_and_nothing_is_left(told: Told) -> None:
    assert told["checks"] == []
    assert told["no changes"]
    assert told["after zero"] == []


def test_messages_are_enqueued_explained_and_handled(told: Told) -> None:
    assert "no_worker" in told["explained"]
    assert told["completed"] == 3
    assert told["dead"] == ["shop.refused"]
    assert told["flushed"] == ["default"]


def test_retention_keeps_house(told: Told) -> None:
    assert told["dropped"] == [0, 1]


def test_retention_that_waits_for_a_lake_drops_nothing_and_a_check_says_so(told: Told) -> None:
    assert told["kept"] == [1, 0]
    assert told["discarded"] == ["unexported", "discarded"]
    assert told["checks of settings"] == ["pgqueue.E022"]


def test_the_doctor_finds_nothing_of_the_pipeline(told: Told) -> None:
    assert set(told["doctor"]) <= {"not_archived", "no_worker", "maintenance_stopped"}


def test_the_commands_work(told: Told) -> None:
    for name, output in told["commands"].items():
        assert not output.startswith("CommandError"), (name, output)
    assert "partitions made" in told["commands"]["sweepqueue"]


def test_queuelake_says_what_to_install(told: Told) -> None:
    assert told["lake"] == [f"CommandError: The app '{PIPELINE}' is not installed. {INSTALL}"] * 2


def test_every_other_kind_of_role_is_granted(told: Told) -> None:
    for kind in ("producer", "worker", "operator", "reader"):
        assert re.search(rf"has all rights of a {kind}\.", told["grants"][kind]), told["grants"][kind]
    assert told["grants"]["pipeline"].startswith("CommandError: The tables of the pipeline are not in the database")
    assert INSTALL in told["grants"]["pipeline"]


def test_every_page_of_the_queue_opens_and_none_of_the_pipeline_is_there(told: Told) -> None:
    assert set(told["pages"]["lists"].values()) == {200}
    assert len(told["pages"]["lists"]) == 8
    assert not told["pages"]["index"]


def test_spark_says_what_to_install(told: Told) -> None:
    """It is run without Django, and knows the database alone."""
    assert len(told["spark"]) == 4
    for text in told["spark"]:
        assert 'add "django_pgqueue.pipeline" to INSTALLED_APPS and run manage.py migrate' in text
