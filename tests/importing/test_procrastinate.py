"""Jobs that Procrastinate itself has deferred become messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError
from django.db import connection
from procrastinate import App
from procrastinate.contrib.django.django_connector import DjangoConnector
from procrastinate.schema import SchemaManager

from django_pgqueue import channel_set, dequeue, enqueue
from django_pgqueue.importing.move import BATCH_JOBS
from django_pgqueue.models import Channel, Message

Connect = Callable[..., psycopg.Connection[Any]]
LATER = datetime(2040, 1, 1, 7, tzinfo=UTC)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("send")]


@pytest.fixture(autouse=True)
def app(db: None) -> App:
    """Its tables, on the connection and in the transaction of the test."""
    channel_set(channel="default")
    app = App(connector=DjangoConnector())
    SchemaManager(app.connector).apply_schema()
    app.open()
    return app


def defer(app: App, name: str = "shop.send", *, order: int = 1, **options: Any) -> int:
    return app.configure_task(name, **options).defer(order=order)


def states() -> dict[int, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, status::text FROM procrastinate_jobs")
        return dict(cursor.fetchall())


def test_a_job_keeps_what_it_is_about(app: App, import_jobs: Callable[..., str]) -> None:
    job = defer(app, order=7, queue="mail", priority=5, schedule_at=LATER, queueing_lock="order-7")

    assert "1 moved, 0 duplicates, 0 stay" in import_jobs("procrastinate")

    message = Message.objects.select_related("channel").get()
    assert (message.handler, message.payload, message.priority) == ("shop.send", {"order": 7}, 5)
    assert (message.channel.queue, message.channel.name) == ("mail", "default")
    assert (message.dequeue_at, message.dedupe_key) == (LATER, "order-7")
    assert message.headers["procrastinate_job"] == str(job)
    assert message.max_attempts == 2, "as the handler says"


def test_each_job_is_moved_once_and_cancelled_there(app: App, import_jobs: Callable[..., str]) -> None:
    jobs = [defer(app, order=number) for number in range(3)]

    import_jobs("procrastinate")
    assert "0 moved" in import_jobs("procrastinate")

    assert states() == dict.fromkeys(jobs, "cancelled")
    assert [delivery.payload["order"] for delivery in dequeue(limit=10)] == [0, 1, 2]


def test_more_jobs_than_a_batch_are_moved(app: App, import_jobs: Callable[..., str]) -> None:
    app.configure_task("shop.send").batch_defer(*({"order": number} for number in range(BATCH_JOBS + 1)))

    assert f"{BATCH_JOBS + 1} moved" in import_jobs("procrastinate")


def test_a_lock_becomes_a_channel_that_runs_one_at_a_time(app: App, import_jobs: Callable[..., str]) -> None:
    for order in (1, 2):
        defer(app, order=order, lock="customer-7")

    import_jobs("procrastinate")

    assert Channel.objects.get(name="customer-7").max_concurrency == 1
    assert [delivery.payload["order"] for delivery in dequeue(limit=10)] == [1]


def test_a_channel_that_is_there_keeps_its_limits(app: App, import_jobs: Callable[..., str]) -> None:
    channel_set(channel="customer-7", max_concurrency=3)
    defer(app, lock="customer-7")

    import_jobs("procrastinate")

    assert Channel.objects.get(name="customer-7").max_concurrency == 3


def test_a_job_that_is_queued_here_already_is_a_duplicate(app: App, import_jobs: Callable[..., str]) -> None:
    enqueue("shop.send", dedupe_key="today")
    job = defer(app, queueing_lock="today")

    assert "0 moved, 1 duplicates" in import_jobs("procrastinate")

    assert states() == {job: "cancelled"}
    assert Message.objects.count() == 1


def test_a_dry_run_moves_nothing(app: App, import_jobs: Callable[..., str]) -> None:
    job = defer(app)

    assert "1 would be moved, 0 would stay" in import_jobs("procrastinate", "--dry-run")

    assert states() == {job: "todo"}
    assert not Message.objects.exists()


def test_a_job_without_a_handler_stays_and_is_counted(app: App, import_jobs: Callable[..., str]) -> None:
    job = defer(app, "shop.old")

    answer = json.loads(import_jobs("procrastinate", "--json"))

    assert (answer["moved"], answer["left"]) == (0, 1)
    [task] = answer["tasks"]
    assert (task["task"], task["waiting"], task["moves"]) == ("shop.old", 1, False)
    assert states() == {job: "todo"}


@pytest.mark.parametrize(
    ("option", "handler"), [(["--handler", "shop.old=shop.send"], "shop.send"), (["--unknown"], "shop.old")]
)
def test_a_job_without_a_handler_moves_if_that_is_said(
    app: App, import_jobs: Callable[..., str], option: list[str], handler: str
) -> None:
    defer(app, "shop.old")

    assert "1 moved" in import_jobs("procrastinate", *option)

    assert Message.objects.get().handler == handler


def test_a_queue_may_get_another_name_and_jobs_another_channel(app: App, import_jobs: Callable[..., str]) -> None:
    defer(app, queue="mail")

    import_jobs("procrastinate", "--queue", "mail=post", "--channel", "old")

    channel = Message.objects.select_related("channel").get().channel
    assert (channel.queue, channel.name) == ("post", "old")


def test_a_job_of_a_dead_worker_moves_only_with_the_option_stuck(app: App, import_jobs: Callable[..., str]) -> None:
    job = defer(app)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_jobs SET status = 'doing'")

    assert "--stuck" in import_jobs("procrastinate")
    assert states() == {job: "doing"}
    assert "1 moved" in import_jobs("procrastinate", "--stuck")
    assert states() == {job: "aborted"}


def test_a_channel_that_drops_loses_no_job(app: App, import_jobs: Callable[..., str]) -> None:
    channel_set(channel="default", max_size=1, full_policy="drop")
    jobs = [defer(app, order=number) for number in range(2)]

    with pytest.raises(CommandError, match="nothing of this batch was moved"):
        import_jobs("procrastinate")

    assert states() == dict.fromkeys(jobs, "todo")
    assert not Message.objects.exists()


def test_without_its_table_the_command_says_where_it_looked(import_jobs: Callable[..., str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE procrastinate_jobs RENAME TO elsewhere")

    with pytest.raises(CommandError, match="no table procrastinate_jobs in the database 'default'"):
        import_jobs("procrastinate")


def test_a_pair_without_a_new_name_is_refused(import_jobs: Callable[..., str]) -> None:
    with pytest.raises(CommandError, match="is not OLD=NEW"):
        import_jobs("procrastinate", "--handler", "shop.old")


def test_the_later_ones_of_a_delay_are_scheduled(app: App, import_jobs: Callable[..., str]) -> None:
    defer(app, schedule_in={"hours": 1})

    import_jobs("procrastinate")

    message = Message.objects.get()
    assert timedelta(minutes=59) < message.dequeue_at - message.created_at <= timedelta(hours=1)
