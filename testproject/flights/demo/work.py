"""Starts real workers, and waits until they have drained the queue."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from django.conf import settings

from django_pgqueue.models import Message
from flights.channels import OFFICE, PASSENGERS, PAUSED, QUEUE

# Enough to fill the handler's batches in both threads.
BATCH = 200
# Looking costs time that is the worker's: the next look waits for so many times what the last one took.
PATIENCE_SECONDS = 20


# Lines of its log that are shown when it fails.
LAST_WORDS = 30


class WorkerFailed(Exception):
    """A worker ended with an error; the end of its log."""


def command(concurrency: int) -> list[str]:
    """As one would type it, but for the interpreter and the path."""
    options = ["--queue", QUEUE, "--queue", OFFICE, "--concurrency", str(concurrency), "--batch", str(BATCH), "--drain"]
    return ["manage.py", "runqueueworker", *options]


def drain(workers: int, concurrency: int, show: Callable[[int], None]) -> None:
    """Run the workers to the end; ``show`` gets the number of messages that are left. Raises WorkerFailed."""
    with ExitStack() as stack:
        running = [stack.enter_context(worker(concurrency)) for _ in range(workers)]
        while any(process.poll() is None for process in running):
            started = time.monotonic()
            show(left())
            time.sleep(max(0.1, PATIENCE_SECONDS * (time.monotonic() - started)))


@contextmanager
def worker(concurrency: int) -> Iterator[subprocess.Popen[bytes]]:
    script, *arguments = command(concurrency)
    with TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, str(Path(settings.PROJECT) / script), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait()
        if process.returncode != 0:
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
            last = "\n".join(lines[-LAST_WORDS:])
            raise WorkerFailed(f"The worker ended with status {process.returncode}. The end of its log:\n{last}")


def left() -> int:
    """Departures that are not settled."""
    return Message.objects.filter(channel__queue=QUEUE).count()


def held_back() -> int:
    """Departures of the paused carrier."""
    return Message.objects.filter(channel__queue=QUEUE, channel__name=PAUSED).count()


def apologies() -> int:
    """Mails that are not written, those that wait for their next attempt included."""
    return Message.objects.filter(channel__queue=OFFICE, channel__name=PASSENGERS).count()
