"""Handlers that do nothing: what is left is the cost of the queue and of the worker."""

import os
import time
from urllib.request import urlopen

from django_pgqueue.delivery import Delivery
from django_pgqueue.handlers import handler


@handler("benchmark.noop")
def noop(delivery: Delivery) -> None: ...


@handler("benchmark.atomic_noop", atomic=True)
def atomic_noop(delivery: Delivery) -> None: ...


@handler("benchmark.async_noop")
async def async_noop(delivery: Delivery) -> None: ...


@handler("benchmark.sleep")
def sleep(delivery: Delivery) -> None:
    """Sleeps for the seconds that the payload names."""
    time.sleep(delivery.payload["seconds"])


@handler("benchmark.stamp")
def stamp(delivery: Delivery) -> None:
    """Writes down when it started. A line is short enough to be written in one piece."""
    now = time.monotonic_ns()
    file = os.open(os.environ["PGQUEUE_STAMPS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{delivery.id} {now}\n".encode())
    os.close(file)


@handler("benchmark.call")
def call(delivery: Delivery) -> None:
    """Call the server that the payload names. An answer that is an error raises."""
    with urlopen(delivery.payload["url"], data=b"{}", timeout=5):
        pass
