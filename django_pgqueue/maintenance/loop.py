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
from django_pgqueue.maintenance import floors, measurer, sweeper
from django_pgqueue.maintenance.pruner import Pruner
from django_pgqueue.maintenance.reminder import Reminder
from django_pgqueue.maintenance.scheduler import Scheduler
from django_pgqueue.sql.call import primary
from django_pgqueue.sql.stall import LIMIT, LONGEST, AnswerTimeout, limit_answer_time

logger = logging.getLogger("django_pgqueue.maintenance")


@dataclass(slots=True)
class MaintenanceStep:
    """A step of maintenance. ``interval``: the setting of its period. ``limit``: seconds to wait for the database."""

    name: str
    interval: str
    run_once: Callable[[str], Any]
    limit: float = LIMIT
    due_at: float = 0.0


class Rounds:
    """Steps that one thread runs, on a connection of its own. ``on_promoted``: as of the loop. ``resting``: the
    connection is closed between two rounds."""

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
        self._patience = AnswerTimeout()

    def run_due(self) -> float:
        """Run the steps that are due. Returns the seconds until the next step is due."""
        for step in self._steps:
            if step.due_at <= time.monotonic():
                self._patience.seconds = step.limit
                counts = step.run_once(self._using)
                # Jitter, so that workers that started together do not all come at once.
                step.due_at = time.monotonic() + getattr(settings, step.interval).total_seconds() * random.uniform(
                    0.9, 1.1
                )
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
        connection = connections[self._using] = connections[self._using].copy()
        connection.settings_dict["OPTIONS"].pop("pool", None)
        limit_answer_time(connection, self._patience)
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
    """Runs all steps. ``on_promoted``: called when messages became ready: scheduled, expired, or of a schedule."""

    def __init__(self, using: str, *, on_promoted: Callable[[], None] = lambda: None) -> None:
        steps = [
            MaintenanceStep("tick", "TICK_INTERVAL", floors.run_once),
            MaintenanceStep("sweep", "SWEEP_INTERVAL", sweeper.run_once),
            # It counts what it drops: a whole day of the archive.
            MaintenanceStep("prune", "PRUNE_INTERVAL", Pruner().run_once, limit=LONGEST),
            MaintenanceStep("schedule", "SCHEDULE_INTERVAL", Scheduler().run_once),
            MaintenanceStep("reminder", "PRUNE_INTERVAL", Reminder().run_once),
        ]
        # Apart: it counts the backlog, and a tick must not wait until millions are counted.
        apart = [MaintenanceStep("measure", "MEASURE_INTERVAL", measurer.run_once, limit=LONGEST)]
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
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(5)

    def run_due(self) -> float:
        """Run the steps that are due, except the measurement. Returns the seconds until the next step is due."""
        return self._rounds.run_due()
