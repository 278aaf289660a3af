"""Handlers that do as the kind of a message says; each run is written into the history, and so is its settlement."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection

from django_pgqueue import Breaker, Complete, Defer, Delivery, Reject, handler
from django_pgqueue.flow import steps_of
from django_pgqueue.signals import message_completed
from verification.chaos.history import Recorder

LEASE = float(os.environ.get("CHAOS_LEASE", "3"))
SUPERVISED = os.environ.get("CHAOS_SUPERVISED") == "1"
EFFECT = "INSERT INTO chaos_audit (event, message, attempts, token, outcome) VALUES ('effect', %s, %s, %s, %s)"
STEPPED = "INSERT INTO chaos_audit (event, message, attempts, token) VALUES ('stepped', %s, %s, %s)"


@cache
def recorder() -> Recorder:
    return Recorder(Path(os.environ["CHAOS_FOLDER"]), f"worker-{os.getpid()}-{time.time_ns()}")


@contextmanager
def recorded(delivery: Delivery, **more: Any) -> Iterator[None]:
    call = recorder().invoke("handle", message=delivery.id, token=str(delivery.token), attempt=delivery.attempt, **more)
    try:
        yield
    except Exception as error:
        call.fail(type(error).__name__)
        raise
    call.ok()


def effect(delivery: Delivery, kind: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(EFFECT, (delivery.id, delivery.attempt, str(delivery.token), kind))


def stepped(delivery: Delivery) -> None:
    with connection.cursor() as cursor:
        cursor.execute(STEPPED, (delivery.id, delivery.attempt, str(delivery.token)))


def acknowledged(sender: Any, delivery: Delivery, **kwargs: Any) -> None:
    recorder().info(
        "acknowledged", message=delivery.id, token=str(delivery.token), attempt=delivery.attempt, outcome="completed"
    )


message_completed.connect(acknowledged)


def chaotic(kind: str, **policy: Any) -> Callable[[Callable[[Delivery], Any]], Callable[[Delivery], Any]]:
    """A handler of this kind, each of its runs recorded."""

    def register(function: Callable[[Delivery], Any]) -> Callable[[Delivery], Any]:
        def run(delivery: Delivery) -> Any:
            with recorded(delivery, slow=kind == "slow" and SUPERVISED):
                return function(delivery)

        register_handler: Any = handler(f"chaos.{kind}", **policy)
        register_handler(run)
        return run

    return register


@chaotic("plain")
def plain(delivery: Delivery) -> None:
    effect(delivery, "plain")
    time.sleep(delivery.id % 7 / 1000)


@chaotic("atomic", atomic=True)
def atomic(delivery: Delivery) -> None:
    effect(delivery, "atomic")
    time.sleep(delivery.id % 5 / 1000)


@chaotic("fail")
def fail(delivery: Delivery) -> None:
    if delivery.attempt < 1 + delivery.id % 3:
        raise ValueError("as the message says")


@chaotic("defer")
def defer(delivery: Delivery) -> Any:
    step = delivery.state or 0
    return Defer(state=step + 1) if step < 2 else Complete(step)


@chaotic("steps")
def steps(delivery: Delivery) -> None:
    """Do something once, and wait for the event of its key."""
    step = steps_of(delivery)
    step("once", stepped, delivery, atomic=True)
    step.wait(delivery.payload["key"], timedelta(hours=1))


@chaotic("reject")
def reject(delivery: Delivery) -> Any:
    return Reject("rejected")


@chaotic("flaky", breaker=Breaker(failures=3, within=timedelta(minutes=1), pause=timedelta(seconds=2)))
def flaky(delivery: Delivery) -> None:
    """Fail for four of ten seconds, as if an API were down."""
    if time.monotonic() % 10 < 4:
        raise ValueError("it is down")


@chaotic("crash")
def crash(delivery: Delivery) -> None:
    if delivery.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@chaotic("late")
def late(delivery: Delivery) -> None:
    """Returns, and kills its process about when its outcome is written down."""
    if delivery.attempt == 1:
        Timer(0.002, os.kill, (os.getpid(), signal.SIGKILL)).start()


@chaotic("slow")
def slow(delivery: Delivery) -> None:
    """Holds the GIL, for three times as long as a lease lasts: its process can say nothing meanwhile."""
    ctypes.PyDLL(None).usleep(int(3 * LEASE * 1_000_000)) if SUPERVISED else time.sleep(3 * LEASE)


@handler("chaos.async")
async def asynchronous(delivery: Delivery) -> None:
    with recorded(delivery):
        await sync_to_async(effect)(delivery, "plain")
