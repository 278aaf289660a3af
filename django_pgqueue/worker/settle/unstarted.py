"""Return leased but unstarted messages at shutdown."""

from __future__ import annotations

import logging
import time
from contextlib import suppress

from django.db import Error

from django_pgqueue.delivery import Delivery
from django_pgqueue.lifecycle.settle import give_back
from django_pgqueue.worker.database import Outage, dedicate_connection
from django_pgqueue.worker.role import Crashed, Role

logger = logging.getLogger("django_pgqueue.worker")


def return_unstarted(waiting: list[Delivery], *, using: str, outage: Outage, crashed: Crashed, timeout: float) -> None:
    """Give the messages back to the queue; their attempt does not count.

    ``waiting``: leased messages that were not started. ``timeout``: seconds to wait for the database; if it is away for
    longer, the leases expire. ``crashed``: called with an error that is not the database's.
    """

    def write() -> None:
        give_back(waiting, using=using)
        logger.info("gave %d message(s) back that were not started", len(waiting), extra={"event": "given_back"})

    def work() -> None:
        dedicate_connection(using)
        outage.retry_until_success("shutdown", write, sleep=sleep_and_go_on)

    # In a thread of its own, because the main thread handles signals and must not wait for the database.
    thread = Role("give-back", work, crashed=crashed)
    try:
        thread.start()
    except RuntimeError:  # no thread can be started: try once on this one
        dedicate_connection(using)
        with suppress(Error):
            write()
    else:
        thread.join(timeout)


def sleep_and_go_on(seconds: float) -> bool:
    """Sleep for ``seconds``. Returns False, so that the caller retries."""
    time.sleep(seconds)
    return False
