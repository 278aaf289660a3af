"""An import beside a worker of the old queue, or beside another import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection
from procrastinate import App
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.schema import SchemaManager

from django_pgqueue import channel_set
from django_pgqueue.models import Message

Connect = Callable[..., psycopg.Connection[Any]]


@pytest.fixture
def jobs(transactional_db: None, send: None) -> Iterator[list[int]]:
    """Three jobs that others see, in a schema that is dropped afterwards."""
    channel_set(channel="default")
    app = App(connector=DjangoConnector())
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA old_queue")
        cursor.execute("SET search_path = old_queue, public")
        SchemaManager(app.connector).apply_schema()
        app.open()
        yield [app.configure_task("shop.send").defer(order=number) for number in range(3)]
        cursor.execute("RESET search_path")
        cursor.execute("DROP SCHEMA old_queue CASCADE")


def test_a_job_that_another_worker_takes_just_now_is_left_to_it(
    jobs: list[int], connect: Connect, import_jobs: Callable[..., str]
) -> None:
    other = connect()
    other.execute("SET search_path = old_queue, public")
    other.execute("SELECT procrastinate_fetch_job_v2(NULL, NULL)")

    assert "2 moved" in import_jobs("procrastinate")
    other.commit()
    assert "0 moved" in import_jobs("procrastinate")

    assert sorted(Message.objects.values_list("payload__order", flat=True)) == [1, 2]


def test_a_job_of_a_worker_that_dies_at_that_moment_is_moved_the_next_time(
    jobs: list[int], connect: Connect, import_jobs: Callable[..., str]
) -> None:
    other = connect()
    other.execute("SET search_path = old_queue, public")
    other.execute("SELECT procrastinate_fetch_job_v2(NULL, NULL)")
    import_jobs("procrastinate")
    other.rollback()

    assert "1 moved" in import_jobs("procrastinate")

    assert sorted(Message.objects.values_list("payload__order", flat=True)) == [0, 1, 2]
