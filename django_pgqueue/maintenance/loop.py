"""Run maintenance beside a worker. Every worker runs this loop; the database decides which one does a step."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import Error, connections

from django_pgqueue.backoff import pause
from django_pgqueue.conf import settings
from django_pgqueue.maintenance import breaker_reporter, measurer, sweeper
from django_pgqueue.maintenance.floors import Floors
from django_pgqueue.maintenance.pruner import Pruner
from django_pgqueue.maintenance.scheduler import Scheduler
from django_pgqueue.sql.call import primary
from django_pgqueue.sql.pinned import pin_settings
from django_pgqueue.sql.stall import ANSWER_SECONDS, LONGEST_ANSWER_SECONDS, AnswerTimeout, limit_answer_time

logger = logging.getLogger("django_pgqueue.maintenance")


@dataclass(slots=True)
class MaintenanceStep:
    """Hold a step of maintenance.

    ``interval``: name of the setting with its period. ``run_once``: does the step, see
    :mod:`django_pgqueue.maintenance`. ``limit``: the most seconds to wait for an answer of the database. ``due_at``:
    when it is due next, by time.monotonic().
    """

    name: str
    interval: str
    run_once: Callable[[str], Any]
    limit: float = ANSWER_SECONDS
    due_at: float = 0.0


class Rounds:
    """Run steps in one thread, on a connection of its own; the maintenance loop has two of these.

    ``on_promoted``: called when messages became ready. ``resting``: the connection is closed between two rounds.
    """

    def __init__(
        self,
        using: str,
        steps: list[MaintenanceStep],
        *,
        on_promoted: Callable[[], None] = lambda: None,
        resting: bool = False,
    ) -> None:
        self._using = using
        self._steps = steps
        self._on_promoted = on_promoted
        self._resting = resting
        self._failures = 0
        self._answer_timeout = AnswerTimeout()

    def run_due(self) -> float:
        """Run the steps that are due. Returns the seconds until the next step is due. Raises what a step raises."""
        for step in self._steps:
            if step.due_at <= time.monotonic():
                self._answer_timeout.seconds = step.limit
                counts = step.run_once(self._using)
                # Jitter, so that workers that started together do not all come at once.
                part = random.uniform(0.9, 1.1) * getattr(counts, "part", 1.0)
                step.due_at = time.monotonic() + getattr(settings, step.interval).total_seconds() * part
                if getattr(counts, "more", False):
                    step.due_at = 0.0
                if getattr(counts, "promoted", 0) or getattr(counts, "fired", 0):
                    self._on_promoted()
                self._report(step, counts)
        return max(0.0, min(step.due_at for step in self._steps) - time.monotonic())

    def _report(self, step: MaintenanceStep, counts: Any) -> None:
        if counts is not None and step.name not in ("tick", "measure"):
            found = {name: count for name in counts.__slots__ if (count := getattr(counts, name))}
            if found:
                text = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found.items())
                logger.info("%s: %s", step.name, text, extra={"event": step.name, **found})

    def run(self, stopped: threading.Event) -> None:
        """Run the steps in the current thread until ``stopped`` is set. An error is logged and retried later."""
        connection = connections[self._using] = connections[self._using].copy()
        connection.settings_dict["OPTIONS"].pop("pool", None)
        limit_answer_time(connection, self._answer_timeout)
        pin_settings(connection)
        try:
            rest = 0.0
            while not stopped.wait(rest):
                rest = self._attempt()
                if self._resting:
                    connection.close()
        finally:
            connections.close_all()

    def _attempt(self) -> float:
        try:
            rest = self.run_due()
        except Exception as error:
            self._failures += 1
            seconds = pause(self._failures)
            if self._failures == 1:
                logger.error(
                    "maintenance failed, retrying in %.1f s: %s", seconds, primary(error),
                    extra={"event": "maintenance_failed"},
                )  # fmt: skip
            if isinstance(error, Error):
                connections[self._using].close()
            return seconds
        if self._failures:
            logger.info("maintenance works again", extra={"event": "maintenance_back"})
            self._failures = 0
        return rest


class MaintenanceLoop:
    """Run all steps of maintenance in two threads, beside a worker or supervisor.

    ``using``: database alias. ``on_promoted``: called when messages became ready: they were scheduled, their leases had
    expired, or a schedule enqueued them.
    """

    def __init__(self, using: str, *, on_promoted: Callable[[], None] = lambda: None) -> None:
        steps = [
            MaintenanceStep("tick", "TICK_INTERVAL", Floors().run_once),
            MaintenanceStep("sweep", "SWEEP_INTERVAL", sweeper.run_once),
            MaintenanceStep("breakers", "SWEEP_INTERVAL", breaker_reporter.run_once),
            # It counts the rows of a partition before it drops it, a whole day of the archive.
            MaintenanceStep("prune", "PRUNE_INTERVAL", Pruner().run_once, limit=LONGEST_ANSWER_SECONDS),
            MaintenanceStep("schedule", "SCHEDULE_INTERVAL", Scheduler().run_once),
        ]
        # A thread of its own, because a tick must not wait until a backlog of millions is counted.
        apart = [MaintenanceStep("measure", "MEASURE_INTERVAL", measurer.run_once, limit=LONGEST_ANSWER_SECONDS)]
        self._rounds = Rounds(using, steps, on_promoted=on_promoted)
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=rounds.run, args=(self._stopped,), name=name, daemon=True)
            for name, rounds in {
                "pgqueue-maintenance": self._rounds,
                "pgqueue-measure": Rounds(using, apart, resting=True),
            }.items()
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads, and wait up to 5 s for each."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(5)

    def run_due(self) -> float:
        """Run the steps that are due, except the measurement. Returns the seconds until the next step is due."""
        return self._rounds.run_due()
