"""Run the parent of the worker processes. No handler runs here, so heartbeats and maintenance are never late."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.db import connections
from django.utils import autoreload

from django_pgqueue.worker import numbers
from django_pgqueue.worker.database import keep_alive
from django_pgqueue.worker.lease_keeper import HeldLease, LeaseKeeper
from django_pgqueue.worker.link import Orders
from django_pgqueue.worker.looks import ServedQueues
from django_pgqueue.worker.process import Child, ProcessSlot, describe_exit
from django_pgqueue.worker.reclaimer import AbandonedLeases, LeaseReclaimer, after_death, after_kill
from django_pgqueue.worker.registration import Registration
from django_pgqueue.worker.runtime import Companion, Shared
from django_pgqueue.worker.shutdown import Shutdown
from django_pgqueue.worker.vitals import Health, Vitals
from django_pgqueue.worker.watch import Stalls, find_verdict

logger = logging.getLogger("django_pgqueue.worker")


class FileWatch:
    """Call ``on_change`` with each changed file, in a thread of its own.

    It uses Django's reloader, which watches the modules that the supervisor has imported: at least the models and
    handlers of every app.
    """

    def __init__(self, on_change: Callable[[Path], None]) -> None:
        self._reloader = autoreload.get_reloader()
        # Django's own function would end this process.
        self._reloader.notify_file_changed = on_change  # type: ignore[method-assign, assignment]  # Django has no hook for it
        self._thread = threading.Thread(target=self._run, name="pgqueue-files", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._reloader.stop()

    def _run(self) -> None:
        try:
            self._reloader.run_loop()
        except Exception:
            logger.exception(
                "--reload does not notice changed files any more: restart the worker", extra={"event": "reload_failed"}
            )


class Supervisor:
    """Start worker processes, extend their leases, watch them and replace them; ``runqueueworker`` runs one.

    ``orders``: those of the children. ``processes``: the number of children. ``companion``: makes the service that runs
    beside them (the maintenance loop), given a function that wakes all children. ``reload``: replace the children when
    a file changes. ``vitals``: reports the health to probes.
    """

    def __init__(
        self,
        orders: Orders,
        processes: int,
        *,
        companion: Callable[[Callable[[], None]], Companion],
        reload: bool = False,
        vitals: Vitals | None = None,
    ) -> None:
        options = self.options = orders.options
        self.shutdown = Shutdown(on_second=self._kill_all)
        self._orders = orders
        self._vitals = vitals or Vitals()
        # Failures, for the last line of the log and the exit status.
        self._faults: list[str] = []
        self._reload_reason = ""
        # After this time without a frame from a child, its unstarted messages are given back.
        self._longest_silence = 2 * options.lease.total_seconds()
        # Only the main thread changes it; others take a copy.
        self._children: list[Child] = []
        self._slots = [ProcessSlot(spawn=self._spawn, stop=self._stop) for _ in range(processes)]
        self._stopping = False
        # Whether all children that were to end had the exit status 0.
        self._clean = True
        shared = Shared(options=options, crashed=self._crashed)
        self._outage = shared.outage
        self._keeper = LeaseKeeper(
            shared,
            holders=lambda: list(self._children),
            on_lost=lambda leases: self._send("lost", leases),
            on_cancelled=lambda leases: self._send("cancelled", leases),
        )
        self._reclaimer = LeaseReclaimer(shared, self._keeper, on_settled=self._wake)
        self._stalls = Stalls(
            options.using, options.lease, children=lambda: list(self._children), leases=self._keeper.since
        )
        self._registration = Registration(
            shared,
            served=ServedQueues(options),
            describe=lambda: [child.describe(options.name) for child in list(self._children)],
            on_paused=self._paused,
        )
        self._companions: list[Companion] = [self._registration, companion(self._wake)]
        self._reloads = reload
        if reload:
            self._companions.append(FileWatch(lambda file: self.reload(f"{file} has changed")))

    def run(self) -> bool:
        """Run until all children have ended. Returns whether everything was clean.

        It is clean if no role crashed, and each child that was to end had the exit status 0; see
        :meth:`QueueWorker.run`.
        """
        self.shutdown.install(hangup=True)
        keep_alive()
        try:
            self._start()
            while self._children or not (self._stopping or all(slot.finished for slot in self._slots)):
                self.shutdown.sleep(numbers.LOOK_SECONDS)
                self.run_once()
            self._close()
        finally:
            self._kill_all()
            self.shutdown.restore()
        return not self._faults

    def run_once(self) -> None:
        """Handle requests to stop or reload, look after the children, and report to probes."""
        if self.shutdown.reason and not self._stopping:
            extra = {"event": "supervisor_stopping", **self._keys}
            logger.info("supervisor %s is stopping: %s", self.options.name, self.shutdown.reason, extra=extra)
            self._vitals.stopping()
            self._stopping = True
            for child in self._children:
                self._stop(child, self.shutdown.reason)
        elif self.shutdown.take_hangup():
            self.reload("SIGHUP")
        if self._reload_reason:
            reason, self._reload_reason = self._reload_reason, ""
            logger.info("replacing all processes: %s", reason, extra={"event": "reloading", **self._keys})
            self._vitals.reloading()
            for slot in self._slots:
                slot.replace(reason)
        for child in list(self._children):
            self._look_after(child)
        if not self._stopping:
            self._fill()
        self._vitals.beat(changing=any(slot.changing for slot in self._slots))

    def reload(self, reason: str) -> None:
        """Replace the children, one after the other; from any thread. ``reason``: for the log."""
        self._reload_reason = reason
        self.shutdown.nudge()

    def health(self) -> Health:
        """Return the health of all children, for probes."""
        problems, children, size = [], list(self._children), len(self._slots)
        if missing := size - sum(slot.ready for slot in self._slots):
            problems.append(f"{missing} of {size} processes not ready")
        if time.monotonic() - self._registration.written_at > numbers.LONGEST_SILENCE_SECONDS:
            problems.append("the database does not answer")
        if self._outage.misfit:
            problems.append(f"the database fails: {self._outage.problem}")
        problems += [f"process {child.pid}: {child.stall}" for child in children if child.stall]
        workers = [
            {"name": child.name, "pid": child.pid, "state": child.state, "running": len(child.board.running())}
            for child in children
        ]
        return Health("stopping" if self._stopping else "running", problems, workers)

    @property
    def _keys(self) -> dict[str, Any]:
        return {"worker": self.options.name}

    def _start(self) -> None:
        logger.info(
            "supervisor %s starts %d process(es) for %s%s", self.options.name, len(self._slots), self.options.served,
            ", and replaces them when a file changes" if self._reloads else "",
            extra={"event": "supervisor_started", **self._keys},
        )  # fmt: skip
        self._keeper.start()
        self._reclaimer.start()
        for companion in self._companions:
            companion.start()
        self._fill()
        self._vitals.start(self.health)

    def _close(self) -> None:
        for companion in self._companions:
            companion.stop()
        if not self._reclaimer.stop(numbers.SHUTDOWN_SETTLE_SECONDS):
            self._faults.append("messages of an ended process could not be given back; their leases will expire")
        if not self._clean:
            self._faults.append("a process did not end cleanly")
        # The keeper is stopped last, so that all leases are extended until here.
        self._keeper.stop()
        self._vitals.stop()
        connections.close_all()
        logger.log(
            logging.ERROR if self._faults else logging.INFO,
            "supervisor %s %s", self.options.name, "; ".join(["stopped", *self._faults]),
            extra={"event": "supervisor_stopped", **self._keys},
        )  # fmt: skip

    # The children, in the main thread.

    def _fill(self) -> None:
        """Start the children that are missing or to be replaced."""
        for slot in self._slots:
            # Children are replaced one after the other, so that most of them work at any time.
            others = any(other.successor is not None for other in self._slots if other is not slot)
            slot.fill(may_replace=not others)

    def _spawn(self) -> Child | None:
        try:
            child = Child(self._orders, on_frame=self._heard, on_gone=self.shutdown.nudge)
        except OSError as error:
            # The system has no memory or too many processes. The children that run go on.
            logger.error(
                "cannot start a process, trying again: %s. Look at the memory and the number of processes of this host",
                error, extra={"event": "child_not_started"},
            )  # fmt: skip
            return None
        self._children.append(child)
        logger.info("process %d started", child.pid, extra={"event": "child_started", **child.keys})
        return child

    def _stop(self, child: Child, reason: str) -> None:
        child.stop(reason, within=self.options.shutdown_timeout.total_seconds() + numbers.STOP_MARGIN_SECONDS)

    def _kill_all(self) -> None:
        for child in list(self._children):
            child.kill_now()

    def _look_after(self, child: Child) -> None:
        """Relieve, replace or kill a child that needs it, and reclaim the messages of one that has ended."""
        child.flush()
        self._relieve(child)
        # A stalled child is killed if it runs nothing, else stopped so that its handlers can end.
        if child.stalled and not child.board.running():
            child.kill(child.stalled)
        elif child.stalled and not child.recycle_reason:
            child.recycle_reason = child.stalled
        status = child.exit_status()
        if status is not None:
            self._ended(child, status)
            return
        verdict = find_verdict(child, time.monotonic(), grace=self.options.grace.total_seconds())
        if verdict is not None and not child.kill_reason:
            extra = {"event": "child_killed", "reason": verdict.why, **child.keys}
            logger.error("killing process %d: %s", child.pid, verdict.why, extra=extra)
            child.kill(verdict.why, verdict.culprits)

    def _relieve(self, child: Child) -> None:
        """Give back the unstarted messages of a silent child, which is stopped or whose handler holds its GIL."""
        silence = time.monotonic() - child.heard_at
        if silence < self._longest_silence or not child.ready:
            child.relieved = False
        elif not child.relieved:
            child.relieved = True
            self._keeper.read(child)
            begun = {entry.id for entry in child.board.begun()}
            waiting = [lease for lease in self._keeper.held(child.name) if lease.id not in begun]
            logger.warning(
                "process %d has not reported for %.0f s, perhaps because a handler holds the interpreter: giving back "
                "%d message(s) that it has not started",
                child.pid, silence, len(waiting), extra={"event": "child_silent", **child.keys},
            )  # fmt: skip
            self._send("lost", waiting)
            self._reclaimer.put(AbandonedLeases(worker=child.name, leases=waiting))

    def _ended(self, child: Child, status: int) -> None:
        begun = child.board.begun()
        child.close(end_group=status != 0)
        self._children.remove(child)
        why = child.kill_reason or child.stop_reason
        extra = {"exit_status": status, "reason": child.stop_reason or child.kill_reason, **child.keys}
        if status == 0 or why:
            logger.info(
                "process %d ended: %s", child.pid, describe_exit(status), extra={"event": "child_ended", **extra}
            )
        else:
            logger.error(
                "process %d died: %s. The %d message(s) that it had begun count an attempt; those that it had not "
                "started are given back", child.pid, describe_exit(status), len(begun),
                extra={"event": "child_died", **extra},
            )  # fmt: skip
        self._registration.wake()
        self._keeper.read(child, last=True)
        if why and (status or self._keeper.held(child.name)):
            self._reclaimer.put(after_kill(child.name, begun=begun, culprits=child.culprits, why=why))
        elif status or self._keeper.held(child.name):
            self._reclaimer.put(after_death(child.name, begun=begun, end=describe_exit(status)))
        if self._stopping:
            self._clean &= status == 0
        else:
            self._succeed(child, status, worked=bool(begun or (child.report and any(child.report.totals.values()))))

    def _succeed(self, child: Child, status: int, *, worked: bool) -> None:
        """Let another child take the place of one that has ended, or none with --once, and --drain at its end."""
        for slot in self._slots:
            if not slot.has(child):
                continue
            delay = slot.vacate(child, worked=worked)
            gives_up = self.options.once or slot.failed_starts > numbers.MOST_FAILED_STARTS
            if (self.options.once or self.options.drain) and (status == 0 or gives_up):
                slot.finished = True
                self._clean &= status == 0
            elif delay:
                logger.warning(
                    "process %d ended soon after its start: the next one starts in %.1f s. The lines above say why",
                    child.pid, delay, extra={"event": "child_delayed", "seconds": round(delay, 1)},
                )  # fmt: skip

    # In the threads of other roles.

    def _heard(self, child: Child, frame: tuple[Any, ...]) -> None:
        match frame:
            case ("report", report, database_error, misfit, recycling):
                starts = not child.ready
                child.record_report(report, database_error, misfit)
                if starts:
                    self.shutdown.nudge()
                    self._registration.wake()
                if recycling and not child.recycle_reason:
                    extra = {"event": "recycling", "reason": recycling, **child.keys}
                    logger.info("process %d is to be replaced: %s", child.pid, recycling, extra=extra)
                    child.recycle_reason = recycling
                    self.shutdown.nudge()
            case ("refused", reason):
                extra = {"event": "refused", **child.keys}
                logger.critical("process %d refuses to work; the worker stops: %s", child.pid, reason, extra=extra)
                self._faults.append("a process refuses to work")
                self.shutdown.request(self._faults[-1])

    def _send(self, what: str, leases: list[HeldLease]) -> None:
        for child in list(self._children):
            child.send_leases(what, [lease.pair for lease in leases if lease.worker == child.name])

    def _paused(self, names: set[str]) -> None:
        for child in list(self._children):
            child.pause(child.name in names)
        # The stalls are looked at here, because the database has just answered.
        self._stalls.run_once()

    def _wake(self) -> None:
        for child in list(self._children):
            child.send("wake")

    def _crashed(self, role: str, error: BaseException) -> None:
        self._faults.append(f"{role} crashed")
        logger.critical("%s crashed; the worker stops", role, exc_info=error, extra={"event": "role_crashed"})
        self.shutdown.request(self._faults[-1])
