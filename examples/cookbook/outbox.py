"""Outbox: each change of an order leaves the database, in its order, at least once, and never for a rolled back one."""

import json
import urllib.error
import urllib.request
from datetime import timedelta

from django.db import models, transaction

from django_pgqueue import Delivery, enqueue, handler
from django_pgqueue.backoff import Exponential

TARGET = "http://127.0.0.1:9/events"  # yours: a webhook, or the HTTP proxy of Kafka


class Order(models.Model):
    status = models.TextField()

    class Meta:
        app_label = "cookbook"


def change(order: int, status: str) -> None:
    """The row and its event are one transaction: there is no outbox table to poll."""
    with transaction.atomic():
        Order.objects.filter(pk=order).update(status=status)
        enqueue("outbox.publish", {"order": order, "status": status}, order_key=f"order-{order}")


@handler("outbox.publish", max_attempts=100, backoff=Exponential(timedelta(seconds=1), longest=timedelta(minutes=10)))
def publish(delivery: Delivery) -> None:
    """The receiver drops an Event-Id that it has seen: after a crash an event comes twice."""
    headers = {"Content-Type": "application/json", "Event-Id": str(delivery.id)}
    request = urllib.request.Request(TARGET, json.dumps(delivery.payload).encode(), headers)
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError as answer:
        answer.close()
        raise
