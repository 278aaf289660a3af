"""Convert the errors of the queue's functions, and keep their texts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import Source

# Errors of a conflict with another transaction, which is over when the call is repeated.
IN_THE_WAY = ("40001", "40P01", "PGQ06")


class LockConflict(PipelineError):
    """Another transaction holds a lock that the statement needs. The same call may succeed a moment later."""


@contextmanager
def refusals_as_pipeline_errors(source: Source) -> Iterator[None]:
    """Convert the errors of the queue's functions.

    A refusal becomes a PipelineError with its hint, a conflict with another transaction becomes LockConflict. Other
    errors are converted as `Source.errors` does.
    """
    with source.errors():
        try:
            yield
        except psycopg.Error as error:
            state = error.sqlstate or ""
            reason = f"{error.diag.message_primary}. {error.diag.message_hint or ''}".strip()
            if state in IN_THE_WAY:
                raise LockConflict(f"Another transaction was in the way: {reason}") from None
            if state.startswith("PGQ"):
                raise PipelineError(reason[0].upper() + reason[1:]) from None
            raise
