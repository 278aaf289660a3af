"""A channel as on a bad day: figures, limits that are reached, leases, dead letters, several handlers."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from django.utils import timezone

from django_pgqueue import channel_set, dead_letter, dequeue, measure
from django_pgqueue.models import Activity, ArchivedMessage, Channel, DeadLetter, Message, Worker

QUEUE, NAME = "mails_and_newsletters", "globex-international-customer-4711"
HANDLERS = ("shop.notifications.send_order_confirmation_mail", "shop.invoices.render_pdf", "sync.crm")
WORKERS = ("web-7.prod.example.org:4711:23d5a965", "web-8.prod.example.org:4712:99aa1b2c")
ERROR = {"type": "shop.errors.PaymentDeclined", "message": "The card was declined by the bank of the customer."}


def fill_tenant() -> Channel:
    """Fill every block of the page, and return the channel."""
    context = {"tenant": "globex", "plan": "enterprise", "schema": "tenant_globex"}
    pk = channel_set(
        channel=NAME, queue=QUEUE, max_concurrency=5, max_size=100, rate="3000/h burst 5", full_policy="error"
    )
    Channel.objects.filter(pk=pk).update(context=context)
    due = timezone.now() - timedelta(minutes=47)
    for number in range(40):
        Message.objects.create(channel_id=pk, handler=HANDLERS[number % 3], payload={"n": number}, dequeue_at=due)
    for worker in WORKERS:
        Worker.objects.create(
            name=worker, hostname=worker.partition(":")[0], pid=4711, queues=[QUEUE], concurrency=8, version="1"
        )
    taken = dequeue(QUEUE, limit=5, worker=WORKERS[0])
    dead_letter(taken[:2], reason="failed", details=ERROR)
    Channel.objects.filter(pk=pk).update(max_concurrency=3)
    letters(10)
    settled()
    archived()
    measure(timedelta(0))
    return Channel.objects.get(pk=pk)


def letters(count: int) -> None:
    """Add dead letters with reasons of several kinds."""
    now = timezone.now()
    DeadLetter.objects.bulk_create(
        DeadLetter(
            id=10_000_000 + place, queue=QUEUE, channel=NAME, handler=HANDLERS[place % 3], payload={}, priority=0,
            attempts=5, max_attempts=5, created_at=now, dequeue_at=now, reason=("failed", "no_such_order")[place % 2],
            dead_at=now - timedelta(minutes=11 * place), details=ERROR if place % 2 == 0 else None,
        )
        for place in range(count)
    )  # fmt: skip


def settled() -> None:
    """Add the figures of a day: more by day than by night, and a bad hour."""
    chance, now = random.Random(7), timezone.now().replace(second=0, microsecond=0)
    for minutes, count in ((10, 10), (60, 25)):
        first = now - timedelta(minutes=now.minute % minutes)
        for place in range(count):
            at = first - place * timedelta(minutes=minutes)
            figures = bucket(chance, at, minutes)
            Activity.objects.create(queue=QUEUE, channel=NAME, minutes=minutes, bucket_at=at, **figures)


def bucket(chance: random.Random, at: datetime, minutes: int) -> dict[str, object]:
    """Return the figures of one bucket."""
    done = int((60 + 40 * (at.hour % 12)) * minutes / 10 * chance.uniform(0.7, 1.2))
    dead = chance.randint(0, 3) if at.hour % 5 else chance.randint(10, 40)
    slow = 24 + (at.hour % 5 == 0) * 10 + chance.randint(0, 4)
    return {
        "completed": done,
        "cancelled": chance.randint(0, 4),
        "dead": dead,
        "retries": 3 * dead + chance.randint(0, 20),
        "waits": [0] * (slow - 6) + [done // 2, done // 3, done // 6, 0, 0, done // 20],
        "runs": [0] * 18 + [done // 2, done // 2, done // 20],
    }


def archived() -> None:
    """Add messages that were completed, of other channels, too."""
    chance, now = random.Random(8), timezone.now()
    rows = []
    for place in range(600):
        leased = now - timedelta(minutes=chance.uniform(1, 60))
        if leased.date() != now.date():
            leased = now
        rows.append(
            ArchivedMessage(
                id=20_000_000 + place, queue=QUEUE, channel=NAME if place % 3 else "initech",
                handler=HANDLERS[place % 5 % 3], payload={}, priority=0, attempts=1 + (place % 17 == 0), max_attempts=5,
                created_at=leased, dequeue_at=leased - timedelta(seconds=chance.expovariate(1 / 40)), leased_at=leased,
                archived_at=leased + timedelta(seconds=chance.expovariate(2)), outcome="completed",
            )
        )  # fmt: skip
    ArchivedMessage.objects.bulk_create(rows)
