"""A project without the optional apps installs none of them, and everything else works: see without_pipeline.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from django_pgqueue.sql import files, roles

Results = dict[str, Any]

pytestmark = pytest.mark.django_db

PIPELINE, FLOW = "django_pgqueue.pipeline", "django_pgqueue.flow"
INSTALL = f'Add "{PIPELINE}" to INSTALLED_APPS and run manage.py migrate.'


@pytest.fixture(scope="module")
def results(live_through: Callable[..., Results]) -> Results:
    return live_through("without_pipeline", without=[PIPELINE, FLOW], urls="testproject.urls")


def test_none_of_its_tables_and_functions_is_there(results: Results) -> None:
    tables = {f"pgqueue_{table}" for table in roles.PIPELINE_TABLES}
    assert set(results["relations"]) & (tables | {"pgqueue_dead_letter_xid"}) == set()
    assert set(results["functions"]) == set(files.latest_functions([files.QUEUE]))
    assert {f"pgqueue_{table}" for table in roles.TABLES} <= set(results["relations"])


def test_batches_say_what_to_install(results: Results) -> None:
    assert not set(results["relations"]) & {f"pgqueue_{table}" for table in roles.FLOW_TABLES}
    assert "ImproperlyConfigured" in results["batch"]
    assert f'add "{FLOW}" to INSTALLED_APPS and run manage.py migrate' in results["batch"]


def test_nothing_is_missing_and_nothing_is_left(results: Results) -> None:
    assert results["checks"] == []
    assert results["no changes"]
    assert results["after zero"] == []


def test_messages_are_enqueued_explained_and_handled(results: Results) -> None:
    assert "no_worker" in results["explained"]
    assert results["completed"] == 3
    assert results["dead"] == ["shop.refused"]
    assert results["flushed"] == ["default"]


def test_retention_removes_old_rows(results: Results) -> None:
    assert results["dropped"] == [0, 1]


def test_retention_that_waits_for_a_lake_drops_nothing_and_a_check_says_so(results: Results) -> None:
    assert results["kept"] == [1, 0]
    assert results["discarded"] == ["unexported", "deleted"]
    assert results["checks of settings"] == ["pgqueue.E022"]


def test_the_doctor_finds_nothing_of_the_pipeline(results: Results) -> None:
    assert set(results["doctor"]) <= {"not_archived", "no_worker", "maintenance_stopped"}


def test_the_commands_work(results: Results) -> None:
    for name, output in results["commands"].items():
        assert not output.startswith("CommandError"), (name, output)
    assert "partitions made" in results["commands"]["sweepqueue"]


def test_the_lake_says_what_to_install(results: Results) -> None:
    assert results["lake"] == [f"CommandError: The app '{PIPELINE}' is not installed. {INSTALL}"] * 2


def test_every_other_kind_of_role_is_granted(results: Results) -> None:
    for kind in ("producer", "worker", "operator", "reader"):
        assert re.search(rf"has all rights of a {kind}\.", results["grants"][kind]), results["grants"][kind]
    assert results["grants"]["pipeline"].startswith("CommandError: The tables of the pipeline are not in the database")
    assert INSTALL in results["grants"]["pipeline"]


def test_every_page_of_the_queue_opens_and_none_of_the_pipeline_is_there(results: Results) -> None:
    assert set(results["pages"]["lists"].values()) == {200}
    assert len(results["pages"]["lists"]) == 10
    assert not results["pages"]["index"]


def test_spark_says_what_to_install(results: Results) -> None:
    """It is run without Django, and knows the database alone."""
    assert len(results["spark"]) == 3
    for text in results["spark"]:
        assert 'add "django_pgqueue.pipeline" to INSTALLED_APPS and run manage.py migrate' in text
