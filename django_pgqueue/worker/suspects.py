"""Run a message alone at its last attempt if its process died at the attempt before: it is a suspect.

When a process dies, each message that it had begun counts an attempt, because any of them may be the cause. Without
this module, a message that kills its process would make dead letters of the messages that always run beside it. When
they run alone, those complete, and only the culprit becomes a dead letter (poison).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from django.db import Error

from django_pgqueue.delivery import Delivery
from django_pgqueue.models import Message

# The error types of an attempt during which the process died.
DEATH_TYPES = {"WorkerDied", "LeaseExpired"}
# A suspect waits at most SUSPECT_WAIT_SECONDS for running messages to end, and then starts beside them. It keeps others
# from starting for at most LONGEST_ALONE_SECONDS. So neither a long handler nor a long suspect stops the process.
SUSPECT_WAIT_SECONDS = 10.0
LONGEST_ALONE_SECONDS = 10.0

logger = logging.getLogger("django_pgqueue.worker")


class Suspects:
    """Keep suspects back until they can run alone; the dispatch passes each message through it.

    ``using``: database alias. ``held``: returns the number of leases that this process holds. ``holds``: returns
    whether it holds the lease of a delivery. ``start``: starts deliveries. The thread of the producer calls all methods
    except :meth:`drop` and :meth:`withdraw`.
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

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Keep the suspects among the deliveries back until they may start. Returns the others."""
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
        """Start the next suspect if it may start now. Returns whether no other message may be dequeued."""
        now = time.monotonic()
        alone = self._alone
        if alone is not None and self._holds(alone) and now < self._since + LONGEST_ALONE_SECONDS:
            return True
        if alone is not None:
            self._alone, self._since = None, now
        if not self._waiting:
            return False
        if self._held() <= len(self._waiting) or now >= self._since + SUSPECT_WAIT_SECONDS:
            try:
                delivery = self._waiting.popleft()
            except IndexError:  # it was dropped by another thread at this moment
                return False
            self._alone, self._since = delivery, now
            self._start([delivery])
        return True

    def drop(self, lost: Delivery) -> bool:
        """Remove a message whose lease is lost. Returns whether it was still waiting."""
        for place, delivery in enumerate(self._waiting):
            if delivery is lost:
                del self._waiting[place]
                return True
        return False

    def withdraw(self, matches: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove the suspects that match and were not started, and return them."""
        # A copy, because the producer may add or start one at this moment.
        return [delivery for delivery in tuple(self._waiting) if matches(delivery) and self.drop(delivery)]

    def _find(self, ids: list[int]) -> set[int]:
        try:
            rows = list(Message.objects.using(self._using).filter(id__in=ids).values_list("id", "errors"))
        except Error:
            # The messages are leased already and must not be lost, so they run beside the others.
            logger.warning(
                "could not read which of the messages %s were running when a process died: all start beside others",
                ids, exc_info=True, extra={"event": "suspects_unknown"},
            )  # fmt: skip
            return set()
        return {message for message, errors in rows if errors and errors[-1].get("type") in DEATH_TYPES}
