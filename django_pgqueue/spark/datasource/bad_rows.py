"""The rows of a frame that cannot be enqueued: which they are, and why. Their content is never repeated."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from django_pgqueue.spark.errors import PipelineError

# The number of bad rows that are named. A job with more of them fails, whatever its options say.
MOST_BAD_ROWS = 100
# The place of a row in an error of COPY, in any language of the server. JSON has line numbers of its own; they come
# first.
PLACE = re.compile(r"COPY pgqueue_stage_\d+, \w+ (\d+)(?:, \w+ (\w+))?")
# The problem of a value by SQLSTATE, because the texts of PostgreSQL repeat the value.
PROBLEMS = {
    "22P02": "it does not have the form of its column's type",
    "22P05": "it has a character that PostgreSQL does not store",
    "22021": "it has a character that PostgreSQL does not store",
    "22003": "it is out of range",
    "22007": "it is no time or duration",
    "22008": "it is out of range",
    "22015": "it is out of range",
    "23502": "it is missing",
    "54000": "it is too large",
}
NO_JSON = "it is no JSON"
JSON_COLUMNS = ("payload", "headers", "limits")
REFUSALS = (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)


class BadValueError(Exception):
    """The value of a column has no form that PostgreSQL could read."""

    def __init__(self, column: str, problem: str) -> None:
        super().__init__(column, problem)
        self.column = column
        self.problem = problem


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be enqueued.

    ``row``: counted from 1 within its partition of the frame. ``origin``: what the frame's column ``origin`` says.
    """

    partition: int
    row: int
    column: str | None
    problem: str
    origin: str | None = None

    def __str__(self) -> str:
        origin = f" ({self.origin})" if self.origin else ""
        column = f", {self.column}" if self.column else ""
        return f"row {self.row} of partition {self.partition}{origin}{column}: {self.problem}"

    def as_json(self) -> dict[str, Any]:
        """Return the row as the column `bad_rows` of pgqueue_ingest holds it."""
        return asdict(self)


def read_refusal(error: psycopg.Error) -> tuple[int, str | None, str]:
    """Return the line that COPY refused, from 1 on, its column and the problem. Raises PipelineError without a line."""
    match = PLACE.search(error.diag.context or "")
    column = (match[2] if match else None) or error.diag.column_name
    problem = PROBLEMS.get(error.sqlstate or "") or error.diag.constraint_name or f"PostgreSQL says {error.sqlstate}"
    if error.sqlstate == "22P02" and column in JSON_COLUMNS:
        problem = NO_JSON
    if match is None:
        raise PipelineError(f"A row of the frame cannot be enqueued: {problem}.") from None
    return int(match[1]), column, problem


def bad_rows_text(rows: Sequence[BadRow]) -> str:
    """Return a text that says how many rows are bad, and names the first of them, each in a line of its own."""
    if len(rows) > MOST_BAD_ROWS:
        title = f"More than {MOST_BAD_ROWS} rows cannot be enqueued, so nothing was enqueued. The first of them"
    else:
        title = f"{len(rows)} row{'s'[: len(rows) > 1]} cannot be enqueued, so nothing was enqueued"
    return "\n- ".join([f"{title}:", *map(str, rows[:MOST_BAD_ROWS])])
