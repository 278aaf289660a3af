"""Start the parts of a worker, and stop them in the order in which no outcome is lost."""

from __future__ import annotations

import logging
import math
import time

from django_pgqueue.worker.database import keep_alive
from django_pgqueue.worker.operate.logs import log_start
from django_pgqueue.worker.operate.shutdown import SHUTDOWN_SETTLE_SECONDS
from django_pgqueue.worker.operate.vitals import LONGEST_SILENCE_SECONDS, Health
from django_pgqueue.worker.parts import WorkerParts
from django_pgqueue.worker.settle.unstarted import return_unstarted

logger = logging.getLogger("django_pgqueue.worker")

VITALS_SECONDS = 1.0


class QueueWorker(WorkerParts):
    """Serve queues until a stop is requested; with ``once`` or ``drain``, until nothing is left to do.

    A child process of a supervisor runs one, and so do ``--processes 0`` and tests. ``options``: what it serves.
    ``companion``: makes the service that runs beside it (the maintenance loop), given a function that wakes the
    producer. ``link``, ``board``: connect it to its supervisor; without a supervisor it extends its leases and writes
    its row itself. ``vitals``: reports the health to probes.
    """

    def run(self) -> bool:
        """Run until a stop is requested.

        Returns whether everything was clean: all handlers have ended, all outcomes are written, and no role crashed.
        """
        self.shutdown.install()
        keep_alive()
        try:
            self._start()
            self._vitals.start(self.health)
            while not self.shutdown.reason:
                self.shutdown.sleep(VITALS_SECONDS)
                self._vitals.beat()
            self._vitals.stopping()
            clean = self._stop(self.shutdown.reason)
        finally:
            self._vitals.stop()
            self.shutdown.restore()
            self.shutdown.close()
        return clean and not self._crashes

    def stop(self) -> None:
        """Ask the worker to stop, and return at once; from any thread."""
        self.shutdown.request("asked to stop")

    def health(self) -> Health:
        """Return the health of a worker that runs without a supervisor."""
        silence = 0.0 if self._registration is None else time.monotonic() - self._registration.written_at
        problems = ["the database does not answer"] if silence > LONGEST_SILENCE_SECONDS else []
        if self._outage.problem:
            problems.append(f"the database fails: {self._outage.problem}")
        oldest = min((entry.ended_at for entry in self.board.begun() if entry.ended_at), default=math.inf)
        if (late := time.monotonic() - oldest) > max(LONGEST_SILENCE_SECONDS, self.options.lease.total_seconds()):
            problems.append(f"outcomes are not written down for {late:.0f} s")
        about = self.describe()
        worker = {"name": about.name, "pid": about.pid, "state": about.state, "running": len(about.running)}
        return Health(about.state, problems, [worker])

    def _start(self) -> None:
        log_start(self.options)
        self._keeper.start()
        self._completer.start()
        self._slots.start()
        self._loop.start()
        self._deadlines.start()
        for companion in self._companions:
            companion.start()
        self._producer.start()

    def _stop(self, reason: str) -> bool:
        extra = {"event": "worker_stopping", "worker": self.options.name}
        logger.info("worker %s is stopping: %s", self.options.name, reason, extra=extra)
        deadline = time.monotonic() + self.options.shutdown_timeout.total_seconds()
        self._producer.stop()
        waiting = self._dispatch.close()
        if waiting:
            return_unstarted(
                waiting,
                using=self.options.using,
                outage=self._outage,
                crashed=self._crashed,
                timeout=SHUTDOWN_SETTLE_SECONDS,
            )
            self._keeper.release(waiting)
        idle = self._dispatch.wait_until_idle(max(0.0, deadline - time.monotonic()))
        if not idle:
            logger.error(
                "%d handler(s) did not end within %s; %s", self._dispatch.running, self.options.shutdown_timeout,
                "their leases will expire" if self._link is None else "the supervisor gives their messages back",
                extra=extra,
            )  # fmt: skip
        written = self._completer.stop(max(SHUTDOWN_SETTLE_SECONDS, deadline - time.monotonic()))
        self._slots.join(5 if idle else 0)
        self._loop.stop(5 if idle else 0)
        self._deadlines.stop()
        for companion in self._companions:
            companion.stop()
        # The keeper is stopped last, so that all leases are extended until here.
        self._keeper.stop()
        self.ledger.close()
        return idle and written
