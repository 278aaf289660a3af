"""Errors of the queue's functions, in their own words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import Source

# Another transaction was in the way: it is over when we come again.
IN_THE_WAY = ("40001", "40P01", "PGQ06")


class InTheWay(PipelineError):
    """Another transaction; the same may work in a moment."""


@contextmanager
def refusals(source: Source) -> Iterator[None]:
    """What a function refuses is told with its hint, what was in the way is InTheWay; the rest as always."""
    with source.errors():
        try:
            yield
        except psycopg.Error as error:
            state = error.sqlstate or ""
            told = f"{error.diag.message_primary}. {error.diag.message_hint or ''}".strip()
            if state in IN_THE_WAY:
                raise InTheWay(f"Another transaction was in the way: {told}") from None
            if state.startswith("PGQ"):
                raise PipelineError(told[0].upper() + told[1:]) from None
            raise
