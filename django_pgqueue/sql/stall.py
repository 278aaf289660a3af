"""A session whose server falls silent: the network, or a pooler in between, may swallow a statement for ever.

TCP notices only what is not acknowledged. Here the answer itself must come in time. If it does not, the server is asked
over a new connection to cancel the statement, so that it cannot take effect long after it was given up. If it says
nothing even then, the session is given up with an OperationalError, as if it had been lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from typing import Any

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("django_pgqueue.database")

# Seconds. What takes so long is lost, nearly always; what is only slow gets twice the time at each new try.
LIMIT = 10.0
LONGEST = 600.0
# Seconds that the request to cancel may take, and then again the statement to end.
GRACE = 2.0


class Patience:
    """How long to wait for an answer; shared by the sessions of one connection, one after the other."""

    def __init__(self, limit: float = LIMIT) -> None:
        self.limit = self._first = limit

    def answers(self, session: psycopg.Connection[Any]) -> None:
        """From now on, whatever this session waits for must come in time."""
        wait = session.wait

        def limited(generator: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
            return wait(self._watched(generator, session), *args, **options)

        session.wait = limited  # type: ignore[method-assign]

    def _watched(
        self, generator: Generator[Any, Any, Any], session: psycopg.Connection[Any]
    ) -> Generator[Any, Any, Any]:
        """The same generator. When psycopg has waited a moment for the socket in vain, it sends a zero."""
        since = time.monotonic()
        cancelled = False
        try:
            wanted = next(generator)
            while True:
                ready = yield wanted
                waited = 0.0 if ready else time.monotonic() - since
                if waited > self.limit + 2 * GRACE:
                    raise psycopg.OperationalError(f"the server has not answered for {waited:.0f} s")
                if waited > self.limit and not cancelled:
                    cancelled = True
                    self._cancel(session)
                wanted = generator.send(ready)
        except StopIteration as end:
            self.limit = min(LONGEST, 2 * self.limit) if cancelled else self._first
            return end.value

    def _cancel(self, session: psycopg.Connection[Any]) -> None:
        logger.warning(
            "no answer for %.0f s: cancelling the statement", self.limit, extra={"event": "statement_stalled"}
        )
        if psycopg.capabilities.has_cancel_safe():  # the old way has no limit of its own
            try:
                session.cancel_safe(timeout=GRACE)
            except psycopg.Error as error:
                logger.debug("the cancel request failed: %s", error)


def expect_answers(connection: BaseDatabaseWrapper, patience: Patience | None = None) -> None:
    """Limit what the sessions of this connection wait for. For a thread's own connection, not for one in a pool."""
    patience = patience or Patience()
    connect: Callable[[dict[str, Any]], psycopg.Connection[Any]] = connection.get_new_connection

    def get_new_connection(parameters: dict[str, Any]) -> psycopg.Connection[Any]:
        session = connect(parameters)
        patience.answers(session)
        return session

    connection.get_new_connection = get_new_connection
