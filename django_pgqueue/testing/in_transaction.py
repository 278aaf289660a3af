"""Inside the transaction of a TestCase: what a handler could do to the test that it cannot do to a worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("django_pgqueue.worker")


def guarded(function: Callable[[Any], Any], argument: Any) -> Any:
    """The function's answer. A statement that fails in it ends what it wrote, not the test's transaction.

    What it leaves to ``on_commit`` runs at its end, as it would in a worker, which has no transaction around it.
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
    """Keep what is written in here, unless the transaction has failed."""
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
    """The connections with a transaction around the test."""
    return [connection for connection in connections.all(initialized_only=True) if connection.in_atomic_block]


def hooks() -> dict[str, int]:
    """How many functions wait for the commit, by the alias of their database."""
    return {connection.alias: len(connection.run_on_commit) for connection in in_test()}


def run_hooks(before: dict[str, int], *, robust: bool = True) -> None:
    """Run those that came since. ``robust``: what one raises is logged, as behind a commit."""
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
