"""A worker process under a supervisor: ``python -m django_pgqueue.worker.child LINK BOARD``, two file descriptors.

Imports nothing of Django before it knows where to find it.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import traceback
from typing import TYPE_CHECKING

from django_pgqueue.worker.hold.board import Board
from django_pgqueue.worker.link.orders import Orders
from django_pgqueue.worker.link.pipe import Link
from django_pgqueue.worker.link.prepare import prepare_process

if TYPE_CHECKING:
    from django_pgqueue.worker.worker import QueueWorker

HINT = "With settings that were changed at run time, use --processes 0."

logger = logging.getLogger("django_pgqueue.worker")


def main(link: Link, board: Board) -> int:
    """Returns the exit status: 0 when all is written down, else 1."""
    # Of a crash in C code, the traceback says which handler it was. On SIGUSR1, each thread says where it is.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    orders = link.receive()
    if orders is None or not prepare_process(orders[0], link, hint=HINT):
        return 1
    try:
        clean = make_worker(orders[0], link, board).run()
    except Exception:  # no thread starts, for example; those that a handler has left must not keep the process
        traceback.print_exc()
        clean = False
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    if not clean:
        # A handler that does not end must not keep the process from ending.
        os._exit(1)
    return 0


def make_worker(orders: Orders, link: Link, board: Board) -> QueueWorker:
    """Make the worker, after what the project wants to be called at the start. Django is set up."""
    from django_pgqueue.worker.worker import QueueWorker

    call_at_start(orders)
    return QueueWorker(orders.options, link=link, board=board)


def call_at_start(orders: Orders) -> None:
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
        logger.warning("%s failed: %s", orders.at_start, str(error).strip(), extra=extra)
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main(Link(int(sys.argv[1])), Board(int(sys.argv[2]))))
