"""The row of a frame that cannot be enqueued: which it is, and why. Its content is never repeated."""

from __future__ import annotations

import re

import psycopg

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


class BadRowError(Exception):
    """A row cannot be enqueued. ``row``: from 0 on among those that were encoded or copied together."""

    def __init__(self, column: str | None, problem: str, row: int = 0) -> None:
        super().__init__(column, problem, row)
        self.column = column
        self.problem = problem
        self.row = row


def refused_by_copy(error: psycopg.Error) -> BadRowError:
    """Return the error for the line that COPY refused."""
    match = PLACE.search(error.diag.context or "")
    column = (match[2] if match else None) or error.diag.column_name
    problem = PROBLEMS.get(error.sqlstate or "") or error.diag.constraint_name or f"PostgreSQL says {error.sqlstate}"
    if error.sqlstate == "22P02" and column in JSON_COLUMNS:
        problem = NO_JSON
    return BadRowError(column, problem, int(match[1]) - 1 if match else 0)
