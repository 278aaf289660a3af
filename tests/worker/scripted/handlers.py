from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction

from django_pgqueue import Breaker, Cancelled, Complete, Defer, Delivery, Reject, Retry, handler, schedule
from django_pgqueue.flow import steps_of

TABLES = """
CREATE TABLE IF NOT EXISTS scripted_effect (
    message_id bigint, attempt integer, at timestamptz DEFAULT clock_timestamp());
CREATE TABLE IF NOT EXISTS scripted_mark (name text, at timestamptz DEFAULT clock_timestamp());
"""
LEAKED: list[Any] = []
OUTCOMES = {
    "complete": Complete,
    "defer": lambda seconds=0.0, state=None: Defer(delay=timedelta(seconds=seconds), state=state),
    "retry": lambda seconds=0.0, error="": Retry(after=timedelta(seconds=seconds), error=error),
    "dead_letter": Reject,
}


def play(delivery: Delivery, steps: Sequence[Sequence[Any]]) -> Any:
    """Do the steps: a verb and its arguments each. An outcome, or ``raise`` and an outcome, ends it."""
    for verb, *arguments in steps:
        match verb:
            case "effect":
                sql("INSERT INTO scripted_effect (message_id, attempt) VALUES (%s, %s)", delivery.id, delivery.attempt)
            case "sql":
                sql(*arguments)
            case "mark":
                apart("INSERT INTO scripted_mark (name) VALUES (%s)", *arguments)
            case "await":
                while not apart("SELECT FROM scripted_mark WHERE name = %s", *arguments):
                    time.sleep(0.01)
            case "sleep":
                time.sleep(*arguments)
            case "first":
                # The steps of the first attempt; later ones go on behind them.
                if delivery.attempt == 1:
                    return play(delivery, arguments)
            case "fresh":
                # The steps of a delivery without saved state.
                if delivery.state is None:
                    return play(delivery, arguments)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill later":
                threading.Timer(arguments[0], os.kill, [os.getpid(), signal.SIGKILL]).start()
            case "exhaust":
                exhaust_descriptors()
            case "leak a lock":
                # The lock of the log, into which the completer writes errors.
                threading.Thread(target=logging.getLogger("django_pgqueue").handlers[0].acquire).start()
            case "fill the link":
                fill_link()
            case "exhaust threads":
                exhaust_threads()
            case "hold the GIL":
                seconds = arguments[0]
                ctypes.PyDLL(None).usleep(int(seconds * 1e6))
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
                # The signal goes to the process: this thread may run on for a moment.
                time.sleep(60)
            case "segfault":
                ctypes.string_at(0)
            case "fork":
                # Both come back from here.
                os.fork()
            case "chain":
                pages, bad = arguments
                page = delivery.state or 0
                sql("INSERT INTO scripted_effect (message_id, attempt) VALUES (%s, %s)", delivery.id, page)
                if page == bad and not apart("SELECT FROM scripted_mark WHERE name = 'killed'"):
                    apart("INSERT INTO scripted_mark (name) VALUES ('killed')")
                    os.kill(os.getpid(), signal.SIGKILL)
                return Defer(state=page + 1) if page + 1 < pages else Complete(pages)
            case "step":
                name, atomic, *inner = arguments
                steps_of(delivery)(name, play, delivery, inner, atomic=atomic)
            case "pause":
                steps_of(delivery).sleep("pause", timedelta(seconds=arguments[0]))
            case "wait":
                steps_of(delivery).wait(*arguments)
            case "enter":
                transaction.atomic().__enter__()
            case "no autocommit":
                transaction.set_autocommit(False, *arguments)
            case "write to":
                with connections[arguments[0]].cursor() as cursor:
                    cursor.execute("INSERT INTO scripted_mark (name) VALUES ('written')")
            case "raise base":
                raise {"KeyboardInterrupt": KeyboardInterrupt, "GeneratorExit": GeneratorExit}[arguments[0]]
            case "catch signals":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case "leak":
                # Sessions that are never closed, and one that is used in a thread of its own.
                LEAKED.extend(connection.copy() for _ in range(2))
                for leaked in LEAKED:
                    leaked.ensure_connection()
                threading.Thread(target=lambda: sql("SELECT 1")).start()
            case "pid":
                return Complete(os.getpid())
            case "until cancelled":
                while not delivery.cancelled:
                    time.sleep(0.01)
                raise Cancelled(f"at attempt {delivery.attempt}")
            case "exit":
                raise SystemExit(*arguments)
            case "fail":
                raise ValueError(*arguments)
            case "answer":
                return arguments[0]
            case "object":
                return Complete(result=object())
            case "raise":
                raise OUTCOMES[arguments[0]](*arguments[1:])
            case _:
                return OUTCOMES[verb](*arguments)
    return None


def sql(statement: str, *parameters: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
        return cursor.rowcount


def apart(statement: str, *parameters: Any) -> int:
    """Run a statement on a session of its own: it is committed even if the handler fails."""
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.rowcount
    finally:
        other.close()


def exhaust_descriptors() -> None:
    """Leak file descriptors until there are none, and break the connection of this thread."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    with suppress(OSError):
        while True:
            LEAKED.append(os.open("/dev/null", os.O_RDONLY))
    raise ValueError("too many open files")


def fill_link() -> None:
    """Leave the supervisor with a link that stays open, and on which no frame comes through any more, either way.

    The writes of this process go into a pipe that is full, and that no process reads.
    """
    link = int(sys.argv[1])
    full, other = socket.socketpair()
    LEAKED.extend([os.dup(link), full, other])
    for size in (65536, 1):
        with suppress(BlockingIOError):
            while True:
                full.send(bytes(size), socket.MSG_DONTWAIT)
    os.dup2(full.fileno(), link)


def exhaust_threads() -> None:
    """Leak a thread that never ends, and leave no address space for another: the system refuses to start it."""
    threading.Thread(target=threading.Event().wait, daemon=False).start()
    threading.stack_size(1 << 30)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), used + (1 << 29)))


@handler("scripted")
def scripted(delivery: Delivery) -> Any:
    return play(delivery, delivery.payload or [])


@handler("scripted.limited", timeout=timedelta(seconds=0.5))
def scripted_limited(delivery: Delivery) -> Any:
    return play(delivery, delivery.payload or [])


BREAKER = Breaker(failures=2, pause=timedelta(seconds=2))


# In the workers of the tests of breakers alone: elsewhere each flush of a test would write the breaker.
@handler("scripted.guarded", breaker=BREAKER if os.environ.get("SCRIPTED_BREAKER") else None)
def scripted_guarded(delivery: Delivery) -> Any:
    return play(delivery, delivery.payload or [])


@handler("scripted.atomic", atomic=True)
def scripted_atomic(delivery: Delivery) -> Any:
    return play(delivery, delivery.payload or [])


@handler("scripted.batch", atomic=True, batch=10)
def scripted_batch(deliveries: list[Delivery]) -> Any:
    sql("INSERT INTO scripted_mark (name) VALUES (%s)", f"batch of {len(deliveries)}")
    return {delivery.id: play(delivery, delivery.payload or []) for delivery in deliveries}


@handler("scripted.batch.plain", batch=10)
def scripted_batch_plain(deliveries: list[Delivery]) -> Any:
    return {delivery.id: play(delivery, delivery.payload or []) for delivery in deliveries}


@handler("scripted.async")
async def scripted_async(delivery: Delivery) -> Any:
    steps = delivery.payload or []
    if steps and steps[0] == ["wait"]:
        await asyncio.sleep(0.01)
        steps = steps[1:]
    if steps and steps[0] == ["fork"]:
        # Both come back, the child to a loop that is not its own.
        os.fork()
        await asyncio.sleep(0.01)
        steps = steps[1:]
    return await sync_to_async(play)(delivery, steps)


# A test changes the code, or what the system has left, under the feet of the worker.
if Path(os.environ.get("THREADLESS", "/nonexistent")).exists():
    exhaust_threads()
if Path(os.environ.get("SCHEDULED", "/nonexistent")).exists():
    schedule(timedelta(hours=1), name="new")(scripted)
