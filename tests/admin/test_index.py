"""Which pages of the queue the admin's index shows, and in which order."""

from __future__ import annotations

import re
from importlib import util
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_pgqueue.admin import pipeline
from django_pgqueue.models import Lake

PIPELINE = ["Backlog forecasts", "Lakes", "Queue metrics"]


@pytest.fixture
def shown(admin_client: Client) -> Any:
    """`shown()`: the names of the queue's pages, in the order of the index."""

    def shown() -> list[str]:
        text = admin_client.get(reverse("admin:app_list", args=["pgqueue"])).content.decode()
        content = text.split('id="content"')[1]
        found = [name.strip() for name in re.findall(r'<a href="[^"]+/pgqueue/\w+/"[^>]*>([^<]+)</a>', content)]
        return [name for name in found if name not in ("View", "Add", "Change")]

    return shown


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """PySpark is not installed here, as on most web servers."""
    monkeypatch.setattr(pipeline, "find_spec", lambda name: None if name == "pyspark" else util.find_spec(name))
    settings.DJANGO_PGQUEUE = {"LAKE": None}


def test_the_dashboard_comes_first(shown: Any) -> None:
    names = shown()
    assert names[0] == "Dashboard"
    assert names[1:] == sorted(names[1:])


@pytest.mark.usefixtures("with_spark")
def test_pages_of_the_pipeline_are_there_where_pyspark_is(shown: Any) -> None:
    assert set(PIPELINE) <= set(shown())


@pytest.mark.usefixtures("without_spark")
def test_without_a_pipeline_its_pages_are_not_shown(shown: Any, admin_client: Client) -> None:
    assert not set(PIPELINE) & set(shown())
    # The address works, and shows that nothing is there.
    assert admin_client.get(reverse("admin:pgqueue_lake_changelist")).status_code == 200


@pytest.mark.usefixtures("without_spark")
def test_a_lake_of_another_machine_brings_them_back(shown: Any) -> None:
    Lake.objects.create(name="nightly", path="/srv/lake", exported_xid=1)
    assert set(PIPELINE) <= set(shown())


@pytest.mark.usefixtures("without_spark")
def test_the_setting_lake_brings_them_back(shown: Any, settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"LAKE": "/srv/lake"}
    assert set(PIPELINE) <= set(shown())


@pytest.mark.usefixtures("without_spark")
def test_the_database_is_asked_once_a_page(admin_client: Client) -> None:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        admin_client.get(reverse("admin:index"))
    asked = [query for query in queries.captured_queries if "pgqueue_lake" in query["sql"]]
    assert len(asked) == 1


@pytest.mark.usefixtures("without_spark")
def test_an_index_on_an_unmigrated_database_is_shown_nevertheless(shown: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE pgqueue_lake CASCADE")
    assert "Dashboard" in shown()
    assert not set(PIPELINE) & set(shown())
