"""Run a worker process under a supervisor: ``python -m django_pgqueue.worker.child LINK BOARD``, two file descriptors.

The module imports nothing of Django before the orders of the supervisor name the path of the modules.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import traceback

from django_pgqueue.worker.board import Board
from django_pgqueue.worker.link import Link, Orders, prepare_process

logger = logging.getLogger("django_pgqueue.worker")


def main(link: Link, board: Board) -> int:
    """Run the worker of this process until it stops. Returns the exit status.

    ``link``: the connection to the supervisor, whose first frame has the orders. ``board``: the shared memory in which
    the process shows its leases and the messages that it runs. The status is 0 if all outcomes are written and no role
    crashed, and else 1. A handler that does not end makes the process exit at once with 1.
    """
    # After a crash in C code, the traceback on stderr names the handler. On SIGUSR1, it shows the stack of each thread.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    orders = link.receive()
    if orders is None or not prepare_process(orders[0], link):
        return 1
    try:
        from django_pgqueue.worker.worker import QueueWorker

        call_at_start(orders[0])
        clean = QueueWorker(orders[0].options, link=link, board=board).run()
    except Exception:  # no thread starts, for example; threads that a handler has left must not keep the process
        traceback.print_exc()
        clean = False
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    if not clean:
        # A handler that does not end must not keep the process from ending.
        os._exit(1)
    return 0


def call_at_start(orders: Orders) -> None:
    """Call the function that ``orders.at_start`` names with the alias of the queue's database, if it names one.

    An error of the database is logged, and the worker starts all the same. Other exceptions are raised.
    """
    if orders.at_start is None:
        return

    from django.db import Error
    from django.utils.module_loading import import_string

    from django_pgqueue.worker.database import dedicate_connection, keep_alive

    keep_alive()
    connection = dedicate_connection(orders.options.using)
    try:
        import_string(orders.at_start)(orders.options.using)
    except Error as error:
        # The database is away. The worker waits for it; this waits for the next child.
        extra = {"event": "start_incomplete", "worker": orders.options.name}
        logger.warning(
            "the database failed during %s, so this process starts without it; the next process calls it again: %s",
            orders.at_start, str(error).strip(), extra=extra,
        )  # fmt: skip
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main(Link(int(sys.argv[1])), Board(int(sys.argv[2]))))
