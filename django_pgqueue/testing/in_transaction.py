"""Protect the transaction of a TestCase from handlers, which could break it as they could not in a worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("django_pgqueue.worker")


def guarded(function: Callable[[Any], Any], argument: Any) -> Any:
    """Call the function and return its answer. A failed statement rolls back the function's writes, not the test's
    transaction.

    Functions that it passes to ``on_commit`` run at its end, as in a worker, which has no transaction around it.
    """
    with ExitStack() as stack:
        for connection in in_test():
            stack.enter_context(kept(connection))
        before = hooks()
        answer = function(argument)
        run_hooks(before, robust=False)
        return answer


@contextmanager
def kept(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Keep the writes of the block, unless the transaction has failed."""
    # Methods of the connection: the function of django.db.transaction that makes a savepoint has changed its name.
    savepoint: Any = connection.savepoint()
    try:
        yield
    finally:
        try:
            connection.savepoint_commit(savepoint)
        except DatabaseError:
            connection.set_rollback(False)
            connection.savepoint_rollback(savepoint)


def in_test() -> list[BaseDatabaseWrapper]:
    """Return the connections with a transaction around the test."""
    return [connection for connection in connections.all(initialized_only=True) if connection.in_atomic_block]


def hooks() -> dict[str, int]:
    """Return how many functions wait for the commit, by the alias of their database."""
    return {connection.alias: len(connection.run_on_commit) for connection in in_test()}


def run_hooks(before: dict[str, int], *, robust: bool = True) -> None:
    """Run the functions of on_commit that were added since. ``robust``: log an exception, as after a commit."""
    for using, count in before.items():
        while len(connections[using].run_on_commit) > count:
            # The stubs know pairs; since Django 4.2 they are triples.
            entry: Any = connections[using].run_on_commit.pop(count)
            _, hook, is_robust = entry
            try:
                hook()
            except Exception:
                if not (robust or is_robust):
                    raise
                logger.exception("a function of on_commit failed", extra={"event": "on_commit_failed"})
