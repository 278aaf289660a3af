from __future__ import annotations

from django_pgqueue import Complete, Delivery, handler


@handler("security.echo")
def echo(delivery: Delivery) -> Complete:
    return Complete(delivery.payload)
