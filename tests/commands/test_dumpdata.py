"""dumpdata and loaddata of a whole project: Django's commands read and write the tables of the queue, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command

from django_pgqueue import (
    channel_set,
    complete,
    dead_letter,
    defer,
    dequeue,
    enqueue,
    limit_set,
    measure,
    queue_set,
    redrive,
    schedule_run,
    sweep,
)  # fmt: skip
from django_pgqueue.lifecycle.upkeep import tick
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Lane, Message, Schedule, Worker
from tests.support.sql import sql
from tests.support.tables import empty_tables


@pytest.fixture
def lived(transactional_db: None) -> Iterator[dict[str, Any]]:
    """A queue with something in each of its tables. Returns the ids of messages by their state."""
    empty_tables()
    channel_set(channel="default")
    channel_set(channel="narrow", max_concurrency=1, context={"a": 1})
    channel_set(channel="slow", release_interval=timedelta(minutes=1))
    channel_set(channel="sized", max_size=5)
    queue_set("default", retention=timedelta(days=30))
    limit_set("api", max_concurrency=2)
    Schedule.objects.create(name="nightly", handler="h", cron="30 2 * * *")
    schedule_run("nightly")
    Worker.objects.create(name="w", hostname="h", pid=1, queues=["default"], concurrency=1)
    ids = {"completed": enqueue("h", {"n": 1}).id, "dead": enqueue("h", body=b"\xff").id}
    for delivery in dequeue(limit=3):
        if delivery.id == ids["dead"]:
            dead_letter(delivery, reason="bad", details={"x": 1})
        else:
            complete(delivery, results=[{"r": 1}])
    ids |= {"ready": enqueue("h", {"n": 2}, backoff=timedelta(seconds=3), limits=["api"]).id}
    ids |= {"scheduled": enqueue("h", delay=timedelta(hours=1)).id, "sized": enqueue("h", channel="sized").id}
    ids |= {"leased": enqueue("h", channel="narrow").id, "waiting": enqueue("h", channel="narrow").id}
    defer([delivery for delivery in dequeue(limit=9) if delivery.id != ids["leased"]])
    tick()
    measure(timedelta(0))
    yield ids
    empty_tables()


def dumped(*labels: str, **options: Any) -> str:
    written = StringIO()
    call_command("dumpdata", *labels, stdout=written, **options)
    return written.getvalue()


def test_each_model_reads_what_its_table_may_hold(lived: dict[str, Any]) -> None:
    sql("UPDATE pgqueue_lane SET parked_until = 'infinity' WHERE parked_until IS NOT NULL")
    assert {lane.channel.name for lane in Lane.objects.all()} >= {"default", "narrow"}
    for app in ("pgqueue", "pgqueue_pipeline"):
        for model in apps.get_app_config(app).get_models():
            list(model._base_manager.all())


def test_a_dump_of_the_whole_project_is_whole(lived: dict[str, Any]) -> None:
    rows = json.loads(dumped())
    assert {"pgqueue.channel", "pgqueue.message", "pgqueue.archivedmessage"} <= {row["model"] for row in rows}
    assert "pgqueue.lane" not in {row["model"] for row in rows}, "the messages make them anew"


def test_a_dump_that_is_loaded_into_an_empty_database_goes_on(lived: dict[str, Any], tmp_path: Path) -> None:
    dump = tmp_path / "project.json"
    dump.write_text(dumped("pgqueue"))
    before = {model: model._base_manager.count() for model in (Channel, Message, ArchivedMessage, DeadLetter, Schedule)}
    empty_tables()
    call_command("loaddata", str(dump), verbosity=0)
    assert {model: model._base_manager.count() for model in before} == before
    row = Message.objects.get(id=lived["ready"])
    assert (row.payload, row.backoff) == ({"n": 2}, timedelta(seconds=3))
    assert ArchivedMessage.objects.get(id=lived["completed"]).result == {"r": 1}
    assert Channel.objects.get(name="slow").release_interval == timedelta(minutes=1)
    assert served() == {lived[name] for name in ("ready", "sized", "leased", "waiting")}
    assert Message.objects.get().id == lived["scheduled"]
    [life] = redrive([lived["dead"]]).values()
    assert life not in lived.values(), "ids go on where they were"


def served() -> set[int]:
    """Complete what can be delivered, after the leases have expired. Returns the ids."""
    sql("UPDATE pgqueue_message SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE status = 2")
    sql("UPDATE pgqueue_floor SET expiry_from = '-infinity'")
    sql("UPDATE pgqueue_message SET backoff = '0', backoff_factor = 1 WHERE status = 2")
    found = set()
    for _ in range(5):
        sweep()
        tick()
        for delivery in dequeue(limit=10):
            found |= {delivery.id}
            complete(delivery)
    return found
