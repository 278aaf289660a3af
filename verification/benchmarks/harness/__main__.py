"""The queue as one contestant of the public harness: `python -m verification.benchmarks.harness`, see adapter.py."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import django

from .adapter import Meter, Settings, asked_for, descriptor, first_sample, own_pace, samples

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "verification.benchmarks.settings")
django.setup()

from django.core.management import call_command  # noqa: E402 (models need django.setup first)
from django.db import connection  # noqa: E402

from django_pgqueue import NewMessage, __version__, channel_set, enqueue_many  # noqa: E402
from django_pgqueue.delivery import Delivery  # noqa: E402
from django_pgqueue.handlers import handler  # noqa: E402
from django_pgqueue.models import Message  # noqa: E402

JOB = "harness.job"
QUEUE = "harness"
MIGRATING = 7_230_001  # an advisory lock: several processes of the harness start at once
SHUTDOWN_SECONDS = 3  # the harness expects the end within 5
LOOK_SECONDS = 0.2  # between two counts of what waits
MANIFEST = json.loads((Path(__file__).parent / "adapter.json").read_text())


def main() -> None:
    settings, meter, stop = Settings.of(os.environ), Meter(), threading.Event()
    _migrate()
    if settings.scenario == "migrate_only":
        return
    if settings.scenario != "long_horizon":
        sys.exit(f"SCENARIO is {settings.scenario!r}; known: long_horizon, migrate_only")
    _emit(descriptor(MANIFEST, settings, __version__, str(connection.settings_dict["NAME"]), time.time()))
    waiting = [0]
    handler(JOB, queue=QUEUE)(_job(settings, meter))
    for work in (_count, _produce, _sample):
        threading.Thread(target=work, args=(settings, meter, stop, waiting), daemon=True).start()
    # It returns when it was asked to end by SIGTERM, and its handlers have ended.
    options = {"processes": 0, "async_concurrency": settings.workers, "batch": min(settings.workers * 2, 500)}
    call_command(
        "runqueueworker", "--queue", QUEUE, "--shutdown-timeout", str(SHUTDOWN_SECONDS), verbosity=0, **options
    )
    stop.set()


def _job(settings: Settings, meter: Meter) -> Any:
    async def job(delivery: Delivery) -> None:
        meter.started(time.monotonic(), (time.time() - delivery.payload["at"]) * 1e3)
        if settings.work:
            await asyncio.sleep(settings.work)
        meter.completed += 1

    return job


def _produce(settings: Settings, meter: Meter, stop: threading.Event, waiting: list[int]) -> None:
    padding = "x" * max(0, settings.payload - 40)
    batches = asked_for(sys.stdin) if settings.paced else own_pace(settings, lambda: waiting[0], stop)
    for number in batches:
        payload = {"at": time.time(), "padding": padding}
        enqueue_many([NewMessage(handler=JOB, queue=QUEUE, payload=payload)] * number)
        meter.enqueued += number


def _count(settings: Settings, meter: Meter, stop: threading.Event, waiting: list[int]) -> None:
    while not stop.wait(LOOK_SECONDS):
        waiting[0] = Message.objects.filter(channel__queue=QUEUE, status=Message.Status.READY).count()


def _sample(settings: Settings, meter: Meter, stop: threading.Event, waiting: list[int]) -> None:
    meter.take(time.monotonic())
    pause = first_sample(time.time(), settings.every)
    while not stop.wait(pause):
        metrics = meter.take(time.monotonic()) | {
            "queue_depth": (waiting[0], 0.0),
            "producer_target_rate": (settings.rate_now() if settings.mode == "fixed" else 0.0, 0.0),
        }
        for record in samples(MANIFEST["system"], settings, metrics, time.time()):
            _emit(record)
        pause = first_sample(time.time(), settings.every)


def _emit(record: dict[str, Any]) -> None:
    print(json.dumps(record), flush=True)


def _migrate() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATING])
        call_command("migrate", verbosity=0)
        channel_set(queue=QUEUE, channel="default")
        cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATING])


if __name__ == "__main__":
    main()
