"""Webhooks: signed, tried again for a day, and at the pace that each customer bears."""

import hashlib
import hmac
import json
import time
import urllib.error
import urllib.request
from datetime import timedelta

from django_pgqueue import Defer, Delivery, Reject, channel_set, enqueue, handler
from django_pgqueue.backoff import Exponential


def subscribe(customer: str) -> None:
    """Call it where the customer enters an address. The limits hold for all workers together."""
    channel_set(channel=customer, max_concurrency=2, rate="5/s burst 20", max_size=100_000)


def emit(customer: str, url: str, event: dict) -> None:
    """Call it in the transaction that makes the event true."""
    enqueue("webhook.send", {"url": url, "event": event}, channel=customer)


def signature(secret: str, moment: int, body: bytes) -> str:
    return hmac.new(secret.encode(), b"%d.%s" % (moment, body), hashlib.sha256).hexdigest()


def secret_of(customer: str) -> str:
    return f"secret of {customer}"  # yours: from the row of the customer, never from the payload


@handler(
    "webhook.send",
    timeout=timedelta(seconds=30),
    max_attempts=15,
    backoff=Exponential(timedelta(seconds=10), longest=timedelta(hours=3)),
)
def send(delivery: Delivery) -> Defer | Reject | None:
    body = json.dumps(delivery.payload["event"]).encode()
    moment = int(time.time())
    request = urllib.request.Request(
        delivery.payload["url"],
        body,
        {
            "Content-Type": "application/json",
            "Webhook-Id": str(delivery.id),  # the same at each attempt: the receiver drops what it has seen
            "Webhook-Signature": f"t={moment},v1={signature(secret_of(delivery.channel), moment, body)}",
        },
    )
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError as answer:
        answer.close()
        if answer.code == 410:
            return Reject("gone", delivery.payload["url"])
        if answer.code == 429:  # this uses no attempt
            return Defer(delay=timedelta(seconds=int(answer.headers.get("Retry-After", "60"))))
        raise
    return None
