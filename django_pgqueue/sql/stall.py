"""Detect a session whose server falls silent: the network, or a pooler in between, may swallow a statement for ever.

TCP notices only data that is not acknowledged. Here the answer itself must come in time. If it does not, a new
connection asks the server to cancel the statement, so that it cannot take effect long after it was given up. If the
server does not answer even then, the session is closed with an OperationalError, as if it had been lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from typing import Any

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper

logger = logging.getLogger("django_pgqueue.worker")

# Seconds. An answer that takes so long is nearly always lost; a server that is only slow gets twice the time each try.
ANSWER_SECONDS = 10.0
LONGEST_ANSWER_SECONDS = 600.0
# Seconds after which a server that was slow counts as quick again.
SLOW_MEMORY_SECONDS = 600.0
# Seconds that the request to cancel may take, and then again the statement to end.
CANCEL_GRACE_SECONDS = 2.0


class AnswerTimeout:
    """Hold the time limit for an answer on one connection, over all of its sessions.

    ``seconds``: the limit for a server that is not slow. It doubles each time when a server answers after the cancel
    request, because that server is only slow, up to LONGEST_ANSWER_SECONDS.
    """

    def __init__(self, seconds: float = ANSWER_SECONDS) -> None:
        self.seconds = seconds
        self._factor = 1
        self._slow_at = 0.0

    @property
    def limit(self) -> float:
        """Return the present limit in seconds."""
        if self._factor > 1 and time.monotonic() > self._slow_at + SLOW_MEMORY_SECONDS:
            self._factor = 1
        return min(LONGEST_ANSWER_SECONDS, self.seconds * self._factor)

    def apply(self, session: psycopg.Connection[Any]) -> None:
        """Apply the limit to all answers of this session from now on."""
        wait = session.wait

        def limited(generator: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
            return wait(self._watched(generator, session), *args, **options)

        session.wait = limited  # type: ignore[method-assign, assignment]  # for this session alone

    def _watched(
        self, generator: Generator[Any, Any, Any], session: psycopg.Connection[Any]
    ) -> Generator[Any, Any, Any]:
        """Run psycopg's generator, and cancel the statement or close the session when the limit is exceeded.

        psycopg sends a zero into the generator after each short wait for the socket without data.
        """
        since = time.monotonic()
        limit = self.limit
        cancelled = False
        try:
            wanted = next(generator)
            while True:
                ready = yield wanted
                waited = 0.0 if ready else time.monotonic() - since
                if waited > limit + 2 * CANCEL_GRACE_SECONDS:
                    session.close()
                    raise psycopg.OperationalError(f"the server has not answered for {waited:.0f} s")
                if waited > limit and not cancelled:
                    cancelled = True
                    cancel_statement(session, limit)
                wanted = generator.send(ready)
        except StopIteration as end:
            return end.value
        finally:
            if cancelled and not session.closed:  # the server is there, only slow
                self._factor *= 2
                self._slow_at = time.monotonic()


def cancel_statement(session: psycopg.Connection[Any], limit: float) -> None:
    """Log that the server has not answered for ``limit`` seconds, and ask it to cancel the session's statement."""
    logger.warning(
        "no answer for %.0f s: cancelling the statement. If that happens often, look for locks and old transactions in "
        "pg_stat_activity, and at the load of the server", limit, extra={"event": "statement_stalled"},
    )  # fmt: skip
    if psycopg.capabilities.has_cancel_safe():  # the old way has no limit of its own
        try:
            session.cancel_safe(timeout=CANCEL_GRACE_SECONDS)
        except psycopg.Error as error:
            logger.debug("the cancel request failed: %s", error)


def limit_answer_time(connection: BaseDatabaseWrapper, timeout: AnswerTimeout | None = None) -> None:
    """Limit the time for each answer on the sessions that this connection opens from now on.

    ``timeout``: the limit; default: ANSWER_SECONDS. It is for a thread's own connection, not for one in a pool.
    """
    timeout = timeout or AnswerTimeout()
    connect: Callable[[dict[str, Any]], psycopg.Connection[Any]] = connection.get_new_connection

    def get_new_connection(parameters: dict[str, Any]) -> psycopg.Connection[Any]:
        session = connect(parameters)
        timeout.apply(session)
        return session

    connection.get_new_connection = get_new_connection  # type: ignore[method-assign, assignment]  # for this session alone
