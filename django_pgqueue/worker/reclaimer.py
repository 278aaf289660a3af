"""Settle the messages of a dead child at once, without waiting for their leases to expire."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple

from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.settle import give_back, retry
from django_pgqueue.models import Message
from django_pgqueue.worker import numbers
from django_pgqueue.worker.board import Begun
from django_pgqueue.worker.database import dedicate_connection
from django_pgqueue.worker.lease_keeper import HeldLease, LeaseKeeper
from django_pgqueue.worker.runtime import Role, Shared

logger = logging.getLogger("django_pgqueue.worker")

ROLE = "lease reclaimer"


# The end of a log line, which says what happens next to the message, by event.
USED_UP = "Its attempts are used up: it is a dead letter."
CONSEQUENCES = {
    ("retried", ""): "It is delivered again after its back-off.",
    ("retried", "at once"): "It is delivered again at once.",
    ("retried", "interrupted"): "It is delivered again at once, and its attempt does not count.",
    ("dead_lettered", ""): USED_UP,
    ("dead_lettered", "at once"): USED_UP,
    ("dead_lettered", "interrupted"): "It was interrupted MAX_INTERRUPTIONS times: it is a dead letter.",
}


class Failure(NamedTuple):
    """Hold the error of an attempt whose process ended.

    ``kind``, ``text``: type and message of the error. ``reason``: the reason of the dead letter, if the attempts are
    used up. ``at_once``: the message is retried without its back-off, because it is not the cause. ``interrupted``: its
    attempt does not count either. ``ran_seconds``: how long its handler ran.
    """

    kind: str
    text: str
    reason: str
    at_once: bool = False
    interrupted: bool = False
    ran_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonedLeases:
    """Hold the leases of a child that has ended or hangs.

    ``worker``: the name of the child. ``failed``: the messages that it had begun and not settled, by id. All others
    were never started: they are given back, and their attempt does not count. ``leases``: the leases to reclaim; None:
    all that the database has for this worker.
    """

    worker: str
    failed: Mapping[int, Failure] = field(default_factory=dict)
    leases: list[HeldLease] | None = None


def after_death(worker: str, *, begun: Iterable[Begun], end: str) -> AbandonedLeases:
    """Return the leases of a child that died by itself. Each message that it had begun may be the cause.

    ``begun``: the messages on its board. ``end``: in words, how the process ended.
    """
    ran = Failure("WorkerDied", f"The process of the worker {worker} ended while this ran: {end}.", "poison")
    text = f"The process of the worker {worker} ended after this had run, before its outcome was written down: {end}."
    unsettled = ran._replace(text=text)
    failed = {entry.id: timed(unsettled if entry.ended_at else ran, entry) for entry in begun}
    return AbandonedLeases(worker=worker, failed=failed)


def after_kill(worker: str, *, begun: Iterable[Begun], culprits: frozenset[int], why: str) -> AbandonedLeases:
    """Return the leases of a child that the supervisor has stopped or killed.

    ``begun``: the messages on its board. ``culprits``: ids of messages that ran past their deadline, if they are the
    reason. All others are retried at once, and without culprits their attempt does not count. ``why``: the reason in
    words.
    """
    late = Failure("HandlerTimeout", f"The process of the worker {worker} was killed: {why}.", "timed_out")
    text = f"The process of the worker {worker} was killed before this was settled: {why}."
    ended = Failure("WorkerStopped", text, "stopped", at_once=True, interrupted=not culprits)
    failed = {entry.id: timed(late if entry.id in culprits else ended, entry) for entry in begun}
    return AbandonedLeases(worker=worker, failed=failed)


def timed(failure: Failure, entry: Begun) -> Failure:
    """Return the failure with the time for which the handler of ``entry`` ran: until now, if it has not ended."""
    return failure._replace(ran_seconds=min(entry.ended_at or math.inf, time.monotonic()) - entry.started_at)


class LeaseReclaimer(Role):
    """Settle abandoned leases in a thread of the supervisor, and retry for as long as the database is away.

    ``keeper``: extends the leases until then. ``on_settled``: called after each settlement.
    """

    def __init__(self, shared: Shared, keeper: LeaseKeeper, *, on_settled: Callable[[], None]) -> None:
        super().__init__(ROLE, self._run, crashed=shared.crashed)
        self._using = shared.using
        self._outage = shared.outage
        self._keeper = keeper
        self._on_settled = on_settled
        self._inbox: SimpleQueue[AbandonedLeases | None] = SimpleQueue()
        # Leases that are looked at a second time, each with that time.
        self._again: list[tuple[float, AbandonedLeases]] = []
        self._stopping = False
        self._gave_up = threading.Event()

    def put(self, abandoned: AbandonedLeases) -> None:
        """Queue leases to be reclaimed; from any thread."""
        self._inbox.put(abandoned)

    def stop(self, timeout: float) -> bool:
        """Settle the queued leases, and end the thread. Returns whether that succeeded within ``timeout`` seconds."""
        self._inbox.put(None)
        self.join(timeout)
        self._gave_up.set()
        return not self.is_alive()

    def run_once(self, abandoned: AbandonedLeases) -> dict[int, str]:
        """Settle the abandoned leases. Returns the event of each message that the child still held, by its id.

        Raises the database's error.
        """
        leases = self._leases(abandoned.worker) if abandoned.leases is None else abandoned.leases
        settled: dict[int, str] = {}
        for reason, interrupted in sorted({(each.reason, each.interrupted) for each in abandoned.failed.values()}):
            settled |= self._retry(abandoned, leases, reason, interrupted=interrupted)
        # In the order of ids, which is the lock order.
        unstarted = sorted(lease for lease in leases if lease.id not in abandoned.failed)
        settled |= dict.fromkeys(give_back(unstarted, using=self._using), "given_back")
        self._keeper.release(leases if abandoned.leases is not None else self._keeper.held(abandoned.worker))
        return settled

    def _retry(
        self, abandoned: AbandonedLeases, leases: list[HeldLease], reason: str, *, interrupted: bool
    ) -> dict[int, str]:
        failed = sorted(
            lease
            for lease in leases
            if (failure := abandoned.failed.get(lease.id)) is not None
            and (failure.reason, failure.interrupted) == (reason, interrupted)
        )
        failures = [abandoned.failed[lease.id] for lease in failed]
        errors = [{"type": failure.kind, "message": failure.text} for failure in failures]
        delays = [timedelta() if failure.at_once else None for failure in failures]
        ran = [failure.ran_seconds for failure in failures]
        return dict(
            retry(
                failed,
                errors=errors,
                delays=delays,
                reason=reason,
                skip_lost=True,
                ran_seconds=ran,
                max_interruptions=settings.MAX_INTERRUPTIONS if interrupted else None,
                using=self._using,
            )
        )

    def _leases(self, worker: str) -> list[HeldLease]:
        """Read the leases of the worker from the database: the board does not have the dequeue that was under way."""
        leased = Message.objects.using(self._using).filter(status=Message.Status.LEASED, worker=worker)
        return [
            HeldLease(message, token, worker)
            for message, token in leased.values_list("id", "lease_token")
            if token is not None
        ]

    def _run(self) -> None:
        dedicate_connection(self._using)
        while (abandoned := self._next()) is not None:
            known: dict[int, Message] = {}
            settle = partial(self._settle, abandoned, known)
            settled = self._outage.retry_until_success(ROLE, settle, sleep=self._gave_up.wait)
            if settled:
                self._report(abandoned, settled, known)
                self._on_settled()

    def _settle(self, abandoned: AbandonedLeases, known: dict[int, Message]) -> dict[int, str]:
        if abandoned.failed:
            failed = Message.objects.using(self._using).filter(pk__in=list(abandoned.failed)).select_related("channel")
            known.update(
                failed.only("handler", "attempts", "max_attempts", "channel__queue", "channel__name").in_bulk()
            )
        return self.run_once(abandoned)

    def _next(self) -> AbandonedLeases | None:
        """Return the next leases to reclaim, new ones or those that are due for a second look; None at the end."""
        while True:
            due = self._again[0][0] - time.monotonic() if self._again else None
            if due is not None and (due <= 0 or self._stopping):
                return self._again.pop(0)[1]
            if self._stopping:
                return None
            try:
                abandoned = self._inbox.get(timeout=due)
            except Empty:
                continue
            if abandoned is None:
                self._stopping = True
            else:
                if abandoned.leases is None:
                    self._again.append((time.monotonic() + numbers.LOOK_AGAIN_SECONDS, abandoned))
                return abandoned

    def _report(self, abandoned: AbandonedLeases, settled: dict[int, str], known: Mapping[int, Message]) -> None:
        for number in sorted(abandoned.failed.keys() & settled.keys()):
            event, failure, message = settled[number], abandoned.failed[number], known.get(number)
            if event not in ("retried", "dead_lettered"):
                continue
            extra = {"event": event, "message_id": number, "worker": abandoned.worker}
            label = f"#{number}"
            if message is not None:
                queue, channel = message.channel.queue, message.channel.name
                extra |= {"queue": queue, "channel": channel, "handler": message.handler}
                attempt = f"attempt {message.attempts} of {message.max_attempts}"
                label = f"{message.handler} #{number} on {queue}/{channel} ({attempt})"
            level = logging.ERROR if event == "dead_lettered" else logging.WARNING
            what = CONSEQUENCES[event, "interrupted" if failure.interrupted else "at once" if failure.at_once else ""]
            logger.log(level, "%s: %s, %s: %s %s", event, label, failure.kind, failure.text, what, extra=extra)
        given_back = sum(event == "given_back" for event in settled.values())
        if given_back:
            extra = {"event": "given_back", "worker": abandoned.worker}
            logger.info(
                "gave %d message(s) back that the worker %s had not started: they are ready again, and their attempt "
                "does not count", given_back, abandoned.worker, extra=extra,
            )  # fmt: skip
