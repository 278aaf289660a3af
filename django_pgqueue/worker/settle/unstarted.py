"""What a worker that stops has not started, goes to others."""

from __future__ import annotations

import logging
import time

from django_pgqueue.delivery import Delivery
from django_pgqueue.lifecycle.give_back import give_back
from django_pgqueue.worker.database import Outage, dedicate
from django_pgqueue.worker.role import Crashed, Role

logger = logging.getLogger("django_pgqueue.worker")


def return_unstarted(waiting: list[Delivery], *, using: str, outage: Outage, crashed: Crashed, timeout: float) -> None:
    """Give them back. If the database is away for longer than ``timeout`` seconds, their leases will expire."""

    def work() -> None:
        dedicate(using)
        outage.patiently("shutdown", lambda: give_back(waiting, using=using), sleep=never_gives_up)
        logger.info("gave %d message(s) back that were not started", len(waiting), extra={"event": "given_back"})

    # On a thread of its own: the main thread answers signals, and must not wait for a database that is away.
    thread = Role("give-back", work, crashed=crashed)
    thread.start()
    thread.join(timeout)


def never_gives_up(seconds: float) -> bool:
    time.sleep(seconds)
    return False
