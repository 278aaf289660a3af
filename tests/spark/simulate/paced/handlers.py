"""A handler that takes as long as its message says."""

from __future__ import annotations

import time

from django_pgqueue import Delivery, handler


@handler("paced")
def paced(delivery: Delivery) -> None:
    time.sleep(delivery.payload)
