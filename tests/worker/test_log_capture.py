"""What handlers log is kept with their messages: LOG_CAPTURE, and the option log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from cryptography.fernet import Fernet

from django_pgqueue import (
    Constant,
    Defer,
    Reject,
    channel_erase,
    channel_set,
    codecs,
    dequeue,
    enqueue,
    enqueue_many,
    prune,
    queue_set,
)
from django_pgqueue.delivery import NewMessage
from django_pgqueue.lifecycle.logs import keep_logs, logs_of
from django_pgqueue.lifecycle.sealing import place
from django_pgqueue.models import ArchivedMessage
from django_pgqueue.worker.capture import HANDLER, LEFT_OUT, Log
from django_pgqueue.worker.numbers import LOG_CHARACTERS
from tests.support.sql import sql, value

Drain = Callable[..., dict[str, int]]
logger = logging.getLogger("shop.orders")
SECRET = "sk_live_4eC39HqLyjWDarjtT1"


@pytest.fixture(autouse=True)
def _info() -> Any:
    level = logger.level
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(level)
    logging.getLogger().removeHandler(HANDLER)


def texts(message: int) -> list[Any]:
    return [kept.log for kept in logs_of(message)]


def rows() -> int:
    return value("SELECT count(*) FROM pgqueue_log")


def test_each_attempt_keeps_its_own_records_and_no_others(drain: Drain, register: Any) -> None:
    def take(delivery: Any) -> None:
        logger.debug("not kept")
        logger.info("attempt %d of %d with key=%s", delivery.attempt, delivery.id, SECRET)
        if delivery.attempt == 1:
            raise ValueError("no route")
        logger.warning("late")

    register("t.log", take, log="INFO", backoff=Constant(timedelta(0)))
    register("t.quiet", lambda delivery: logger.info("unseen"))
    message, quiet = enqueue("t.log").id, enqueue("t.quiet").id
    assert drain() == {"completed": 2, "retried": 1}
    first, second = texts(message)
    assert first.endswith(f"INFO shop.orders: attempt 1 of {message} with key=********")
    assert second.splitlines()[1].endswith("WARNING shop.orders: late")
    assert len(second.splitlines()) == 2
    assert logs_of(quiet) == []


def test_each_delivery_keeps_its_own_also_one_that_used_no_attempt(drain: Drain, register: Any) -> None:
    def take(delivery: Any) -> Any:
        logger.info("visit %d", delivery.state or 0)
        return Defer(delay=timedelta(0), state=(delivery.state or 0) + 1) if delivery.state != 2 else None

    register("t.log", take, log="INFO")
    message = enqueue("t.log").id
    drain()
    assert [text[-7:] for text in texts(message)] == ["visit 0", "visit 1", "visit 2"]
    assert {kept.attempt for kept in logs_of(message)} == {1}


@pytest.mark.django_db
def test_the_newest_logs_are_kept_of_a_message_that_comes_back_again_and_again() -> None:
    message, other = enqueue("h").id, enqueue("h").id
    deliveries = dequeue(limit=2)
    keep_logs(deliveries, ["0", "x"])
    for number in range(1, 55):
        keep_logs([replace(deliveries[0], token=uuid4())], [str(number)])
    assert texts(message) == [str(number) for number in range(5, 55)]
    assert texts(other) == ["x"]


def test_the_setting_is_for_all_handlers_and_off_is_for_one(drain: Drain, register: Any, settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {**getattr(settings, "DJANGO_PGQUEUE", {}), "LOG_CAPTURE": "WARNING"}
    register("t.log", lambda delivery: logger.warning("seen"))
    register("t.off", lambda delivery: logger.warning("unseen"), log="OFF")
    register("t.silent", lambda delivery: logger.info("below"))
    ids = [enqueue(name).id for name in ("t.log", "t.off", "t.silent")]
    drain()
    assert [len(logs_of(each)) for each in ids] == [1, 0, 0]


def test_async_handlers_beside_each_other_and_what_they_await(drain: Drain, register: Any) -> None:
    async def take(delivery: Any) -> None:
        logger.info("begin %s", delivery.payload)
        await asyncio.sleep(0.01)
        await sync_to_async(logger.info)("in a thread %s", delivery.payload)
        await asyncio.create_task(speak(delivery.payload))

    async def speak(number: int) -> None:
        logger.info("in a task %s", number)

    register("t.async", take, log="INFO")
    ids = [answer.id for answer in enqueue_many(NewMessage(handler="t.async", payload=n) for n in range(5))]
    drain()
    for number, message in enumerate(ids):
        [log] = texts(message)
        assert [line.rpartition(": ")[2] for line in log.splitlines()] == [
            f"begin {number}", f"in a thread {number}", f"in a task {number}"
        ]  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"atomic": True}], ids=["plain", "atomic"])
def test_the_log_is_there_with_every_outcome(drain: Drain, register: Any, options: dict[str, Any]) -> None:
    def take(delivery: Any) -> Any:
        logger.info("seen")
        return {"defer": Defer(delay=timedelta(hours=1)), "reject": Reject("no")}.get(delivery.payload)

    register("t.log", take, log="INFO", **options)
    ids = [enqueue("t.log", word).id for word in ("complete", "defer", "reject")]
    drain()
    assert [len(logs_of(each)) for each in ids] == [1, 1, 1]


def test_a_batch_shares_the_room_of_one_log(start: Any, register: Any) -> None:
    def take(deliveries: Any) -> None:
        for number in range(2000):
            logger.info("%d %s", number, "x" * 100)

    register("t.batch", take, log="INFO", batch=4)
    ids = [answer.id for answer in enqueue_many(NewMessage(handler="t.batch") for _ in range(4))]
    start(concurrency=1, once=True).join()
    logs = [log for each in ids for log in texts(each)]
    assert len(logs) == 4
    assert all(log.startswith(LEFT_OUT) and log.endswith("1999 " + "x" * 100) for log in logs)
    assert sum(map(len, logs)) < LOG_CHARACTERS + 4 * 100


def test_a_record_that_is_longer_than_its_share_of_the_room_loses_its_beginning() -> None:
    log = Log(logging.INFO)
    with log:
        logger.info("early")
        logger.info("%s end", "x" * 500)
    assert log.text(100) == f"{LEFT_OUT}\n{'x' * 96} end"


def test_the_last_records_are_kept_and_a_secret_is_not_cut_in_half() -> None:
    log = Log(logging.INFO)
    with log:
        logger.info("first")
        for _ in range(70):
            logger.info("y" * 1000)
        logger.info("%s%s%s", "z" * 200_000, f"password={SECRET}", "z" * 10)
    text = log.text()
    assert text.startswith(LEFT_OUT)
    assert "first" not in text
    assert SECRET not in text
    assert len(text) <= LOG_CHARACTERS + len(LEFT_OUT) + 1
    logger.info("after")
    assert "after" not in log.text()


def test_a_codec_encodes_the_log(drain: Drain, register: Any, settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {
        "PAYLOAD_CODEC": "django_pgqueue.codecs.FernetCodec", "PAYLOAD_KEYS": [Fernet.generate_key().decode()],
        "MAX_PAYLOAD": 1_000,
    }  # fmt: skip
    register("t.log", lambda delivery: logger.info("canary" * 1_000), log="INFO")
    message = enqueue("t.log").id
    assert drain() == {"completed": 1}
    [log] = texts(message)
    assert "canary" not in value("SELECT log::text FROM pgqueue_log")
    assert codecs.opened(log, place("default", "default", None)).endswith("canary")


def test_where_the_archive_keeps_no_payload_no_log_is_kept(drain: Drain, register: Any) -> None:
    def take(delivery: Any) -> None:
        logger.info("seen")
        if delivery.attempt == 1:
            raise ValueError

    for name in ("outcome", "none"):
        register(f"t.{name}", take, log="INFO", archive=name, backoff=Constant(timedelta(0)))
        enqueue(f"t.{name}")
    drain()
    assert rows() == 0


def test_the_log_goes_with_the_tenant_and_with_the_archive(drain: Drain, register: Any) -> None:
    register("t.log", lambda delivery: logger.info("seen"), log="INFO")
    register("t.dead", lambda delivery: logger.info("seen") or Reject("no"), log="INFO")
    channel_set(channel="acme")
    enqueue("t.log", channel="acme")
    kept, dead = enqueue("t.log").id, enqueue("t.dead").id
    drain()
    assert channel_erase(queue="default", channel="acme").erased["log"] == 1
    assert [len(logs_of(each)) for each in (kept, dead)] == [1, 1]
    sql("UPDATE pgqueue_log SET written_at = written_at - interval '8 days'")
    prune()
    assert rows() == 2
    queue_set(retention=timedelta(days=7))
    prune()
    assert [len(logs_of(each)) for each in (kept, dead)] == [0, 1]


def test_a_lost_lease_keeps_no_log_and_the_others_of_its_call_keep_theirs(start: Any, register: Any) -> None:
    def take(deliveries: Any) -> None:
        logger.info("seen")
        sql("UPDATE pgqueue_message SET lease_token = gen_random_uuid() WHERE payload = '1'")

    register("t.batch", take, log="INFO", batch=3)
    ids = [answer.id for answer in enqueue_many(NewMessage(handler="t.batch", payload=n) for n in range(3))]
    worker = start(concurrency=1, once=True)
    worker.join()
    assert ArchivedMessage.objects.count() == 2
    assert [len(logs_of(each)) for each in ids] == [1, 0, 1]
