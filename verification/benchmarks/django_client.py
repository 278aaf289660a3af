"""A program of Django's that enqueues as users do; it prints its figures as JSON.

`python -m verification.benchmarks.django_client WAY SECONDS`, with the settings and the database of a run.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import django
from django.db import models, transaction

from .bulk import CHANNELS, CHUNK, HANDLER, PAYLOAD

IN_TRANSACTION = 500  # messages of one transaction
WARM = 200


def plain_model() -> type[models.Model]:
    """A model of the table plain_message, which has the columns and the indexes of the queue's table."""
    from django_pgqueue.models import Message

    class Meta:
        app_label = "benchmarks"
        db_table = "plain_message"
        managed = False

    columns: dict[str, Any] = {field.name: field.clone() for field in Message._meta.local_fields}
    columns |= {"channel": models.BigIntegerField(db_column="channel_id"), "Meta": Meta, "__module__": __name__}
    return type("PlainMessage", (models.Model,), columns)


def one_by_one(send: Callable[[int], object], seconds: float) -> dict[str, float]:
    """Microseconds of one call in an open transaction; the commits are not counted."""
    calls, took, spent, deadline = 0, 0.0, 0.0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        with transaction.atomic():
            began, cpu = time.perf_counter(), time.process_time()
            for number in range(IN_TRANSACTION):
                send(number)
            took += time.perf_counter() - began
            spent += time.process_time() - cpu
        calls += IN_TRANSACTION
    return {"value": took / calls * 1e6, "client's CPU µs": spent / calls * 1e6}


def many(send: Callable[[Iterator[int]], object], seconds: float) -> dict[str, float]:
    """Rows per second with the commits. The numbers of the messages do not end; each call takes its share of them."""
    numbers = count()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, cpu, calls = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() < began + seconds:
        send(islice(numbers, CHUNK))
        calls += 1
    rows = calls * CHUNK
    return {
        "value": rows / (time.perf_counter() - began),
        "rows": rows,
        "client's CPU µs": (time.process_time() - cpu) / rows * 1e6,
        "client's memory grew by MB": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }


def main(way: str, seconds: float) -> dict[str, float]:
    django.setup()
    from django_pgqueue import NewMessage, enqueue, enqueue_many
    from django_pgqueue.models import Channel

    payload = json.loads(PAYLOAD)
    ids = list(Channel.objects.exclude(name="default").order_by("pk").values_list("pk", flat=True))
    names = [f"c{1 + n}" for n in range(CHANNELS)]
    plain: Any = plain_model()

    def row(n: int) -> dict[str, Any]:
        return {"channel": ids[n % CHANNELS], "handler": HANDLER, "payload": payload}

    def message(n: int) -> NewMessage:
        return NewMessage(handler=HANDLER, payload=payload, channel=names[n % CHANNELS])

    single: dict[str, Callable[[int], object]] = {
        "create": lambda n: plain.objects.create(**row(n)),
        "enqueue": lambda n: enqueue(HANDLER, payload, channel=names[n % CHANNELS]),
    }
    bulk: dict[str, Callable[[Iterator[int]], object]] = {
        "bulk_create": lambda numbers: plain.objects.bulk_create(plain(**row(n)) for n in numbers),
        "enqueue_many": lambda numbers: enqueue_many(message(n) for n in numbers),
    }
    if way in single:
        for n in range(WARM):
            single[way](n)
        return one_by_one(single[way], seconds)
    bulk[way](iter(range(CHUNK)))
    return many(bulk[way], seconds)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], float(sys.argv[2]))))
