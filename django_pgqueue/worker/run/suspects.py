"""Suspects: messages at their last attempt whose process died at the one before. Each of them runs alone.

All that had begun in a process that died counts its attempt, since any of it may be the cause. Without this, the
message that kills its process would take the neighbours with it that always run beside it. Alone, a neighbour
completes, and the culprit becomes poison by itself.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from django.db import Error

from django_pgqueue.delivery import Delivery
from django_pgqueue.models import Message

# Types of the error that the attempt before has left.
DEATHS = {"WorkerDied", "LeaseExpired"}
# Seconds. A suspect waits so long for what runs here to end, then it starts beside it; a suspect keeps others from
# starting for so long. Neither a long handler nor a long suspect may stop the process for longer.
LONGEST_WAIT = 10.0
LONGEST_ALONE = 10.0

logger = logging.getLogger("django_pgqueue.worker")


class Suspects:
    """``held``: how many leases this process has; ``holds``: whether it has this one; ``start``: starts it.

    Everything happens in the thread of the producer, but for :meth:`drop`.
    """

    def __init__(
        self,
        using: str,
        *,
        held: Callable[[], int],
        holds: Callable[[Delivery], bool],
        start: Callable[[list[Delivery]], None],
    ) -> None:
        self._using = using
        self._held = held
        self._holds = holds
        self._start = start
        self._waiting: deque[Delivery] = deque()
        self._since = 0.0
        self._alone: Delivery | None = None

    def keep(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Keep the suspects among them here until they may start. Returns the others."""
        last = [delivery.id for delivery in deliveries if delivery.attempt > 1 and delivery.last_attempt]
        if not last:
            return deliveries
        found = self._find(last)
        suspects = [delivery for delivery in deliveries if delivery.id in found]
        if not suspects:
            return deliveries
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.extend(suspects)
        extra = {"event": "suspects", "message_ids": [delivery.id for delivery in suspects]}
        logger.info(
            "%d message(s) at their last attempt start alone: a process died while they ran before", len(suspects),
            extra=extra,
        )  # fmt: skip
        return [delivery for delivery in deliveries if delivery.id not in found]

    def block(self) -> bool:
        """Start the next suspect if it may start now. Returns whether nothing else may be taken."""
        now = time.monotonic()
        alone = self._alone
        if alone is not None and self._holds(alone) and now < self._since + LONGEST_ALONE:
            return True
        if alone is not None:
            self._alone, self._since = None, now
        if not self._waiting:
            return False
        if self._held() <= len(self._waiting) or now >= self._since + LONGEST_WAIT:
            try:
                delivery = self._waiting.popleft()
            except IndexError:  # it was dropped at this moment
                return False
            self._alone, self._since = delivery, now
            self._start([delivery])
        return True

    def drop(self, lost: Delivery) -> bool:
        """Forget a message that this worker has lost. Returns whether it was still waiting."""
        for place, delivery in enumerate(self._waiting):
            if delivery is lost:
                del self._waiting[place]
                return True
        return False

    def clear(self) -> list[Delivery]:
        """Start nothing more. Returns the messages that were not started."""
        left = list(self._waiting)
        self._waiting.clear()
        return left

    def _find(self, ids: list[int]) -> set[int]:
        try:
            rows = list(Message.objects.using(self._using).filter(id__in=ids).values_list("id", "errors"))
        except Error:
            # They are leased already, and must not get lost: they run beside the others.
            logger.warning("cannot read the errors of %s", ids, exc_info=True, extra={"event": "suspects_unknown"})
            return set()
        return {message for message, errors in rows if errors and errors[-1].get("type") in DEATHS}
