"""Common parts of the programs of all contestants: payloads, marks, the pace of producers."""

from __future__ import annotations

import asyncio
import itertools
import json
import mmap
import os
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

LONG = 600.0  # seconds that the first run of a held message takes: longer than any contest waits
POOL = 8  # connections of the producers


def payload(key: int) -> dict[str, object]:
    """About 100 bytes of JSON."""
    return {"key": key, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "flight": 1545, "hour": 5}


def mark(event: str, key: int) -> None:
    """One line in the file of the run. CLOCK_MONOTONIC is the same for all processes of a machine."""
    line = f"{event} {key} {os.getpid()} {time.monotonic_ns()}\n"
    file = os.open(os.environ["MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


class Count:
    """A number of this process in a file that the benchmark reads while the program runs."""

    def __init__(self, event: str, pid: int) -> None:
        file = os.open(Path(os.environ["COUNTS"]) / f"{event}-{pid}", os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(file, 8)
        self.memory = mmap.mmap(file, 8)
        os.close(file)
        self.number, self.lock = 0, threading.Lock()

    def add(self, number: int) -> None:
        with self.lock:
            self.number += number
            self.memory[:] = self.number.to_bytes(8, "little")


_counts: dict[tuple[str, int], Count] = {}
_opening = threading.Lock()


def count(event: str, number: int = 1) -> None:
    """Count messages that were `enqueued`, `completed` or `dead`, where no database can be asked for that."""
    key = (event, os.getpid())  # a process that was forked has counts of its own
    if key not in _counts:
        with _opening:
            if key not in _counts:
                _counts[key] = Count(*key)
    _counts[key].add(number)


class Poisoned(Exception):
    """The error of a poison message, in every attempt."""


def started(key: int) -> None:
    mark("started", key)


def poison(key: int) -> None:
    mark("poisoned", key)
    raise Poisoned


def hold(key: int) -> None:
    """Hang in the first run, so that it can be killed; the second one ends at once."""
    first = not Path(os.environ["MARKS"]).read_text().count("held")
    mark("held", key)
    if first:
        time.sleep(LONG)


@dataclass(frozen=True, slots=True)
class Plan:
    """A load: `clients` enqueue, a message a call, `count` of them (0: without end); `rate` a second (0: no pause)."""

    handler: str = "noop"
    clients: int = 1
    count: int = 0
    rate: float = 0
    poison_every: int = 0

    def messages(self) -> Iterator[tuple[int, str, float]]:
        """Key, handler and when it is due (time.monotonic)."""
        began = time.monotonic()
        for key in range(self.count) if self.count else itertools.count():
            # Jitter: a poller must not be met at the same moment of its interval each time.
            due = began + (key + random.random()) / self.rate if self.rate else 0.0
            poisoned = self.poison_every and key % self.poison_every == self.poison_every // 2
            yield key, "poison" if poisoned else self.handler, due


def sent(plan: Plan, key: int) -> None:
    if plan.handler != "noop":
        mark("sent", key)
    if "COUNTS" in os.environ:
        count("enqueued")


def produce(plan: Plan, enqueue: Callable[[str, int], object]) -> None:
    """`clients` threads; `enqueue(handler, key)` returns after the commit."""
    messages, lock = plan.messages(), threading.Lock()

    def client() -> None:
        while True:
            with lock:
                message = next(messages, None)
            if message is None:
                return
            key, handler, due = message
            time.sleep(max(0.0, due - time.monotonic()))
            enqueue(handler, key)
            sent(plan, key)

    threads = [threading.Thread(target=client) for _ in range(plan.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def aproduce(plan: Plan, enqueue: Callable[[str, int], Awaitable[object]]) -> None:
    """The same with `clients` tasks."""
    messages = plan.messages()

    async def client() -> None:
        for key, handler, due in messages:
            if (pause := due - time.monotonic()) > 0:
                await asyncio.sleep(pause)
            await enqueue(handler, key)
            sent(plan, key)

    await asyncio.gather(*(client() for _ in range(plan.clients)))


def chunks(count: int, size: int = 1_000) -> Iterator[range]:
    for first in range(0, count, size):
        yield range(first, min(first + size, count))


def arguments() -> tuple[str, int, Plan]:
    """The command line of every program: install | fill COUNT | produce PLAN (JSON)."""
    verb, argument = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "0"
    if verb == "produce":
        return verb, 0, Plan(**json.loads(argument))
    return verb, int(argument), Plan()
