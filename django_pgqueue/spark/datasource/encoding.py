"""Encode the rows of a frame as text for COPY: one line per message, so that a line's number is the row's.

An error about a row never repeats its content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from django_pgqueue.spark.errors import PipelineError

# About this many bytes are encoded and sent at once.
PIECE_BYTES = 8 * 1024 * 1024
NESTED = (spark.StructType, spark.MapType, spark.ArrayType)
WHOLE = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
NUMBER = (*WHOLE, spark.FloatType, spark.DoubleType, spark.DecimalType)
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

Encode = Callable[[pa.Array], pa.Array]


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


def encode_text(values: pa.Array) -> pa.Array:
    """Return the values as text."""
    return values.cast(pa.string())


def encode_json(values: pa.Array) -> pa.Array:
    """Return structs, maps and lists as JSON; text is taken as JSON as it is. Raises ValueError, as dump() does."""
    if pa.types.is_nested(values.type):
        try:
            rows = values.to_pylist(maps_as_pydicts="strict")
        except (KeyError, ValueError):
            # Its text would repeat the key.
            raise ValueError("a map or a struct has a key twice") from None
        return pa.array([None if row is None else dump(row) for row in rows], pa.string())
    return encode_text(values)


def dump(value: Any) -> str:
    """Return a value as JSON. Raises ValueError for what JSON does not have, such as NaN or bytes."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=encode_moment)
    except TypeError as error:
        raise ValueError(f"{NO_JSON}: {error}; make the text yourself, with to_json(…)") from None
    except ValueError:
        raise ValueError(f"{NO_JSON}: it has a number that is not finite") from None


def encode_moment(value: object) -> str:
    """Return a date or a time in ISO 8601, for json.dumps. Raises TypeError for any other value."""
    if isinstance(value, date | datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def encode_body(values: pa.Array) -> pa.Array:
    """Return bytes in the hex format of PostgreSQL's bytea."""
    return pa.array([None if value is None else "\\x" + value.hex() for value in values.to_pylist()], pa.string())


def encode_interval(values: pa.Array) -> pa.Array:
    """Return durations, or numbers of seconds, as intervals of PostgreSQL in microseconds."""
    if pa.types.is_duration(values.type):
        microseconds = values.cast(pa.duration("us")).cast(pa.int64())
    else:
        microseconds = pc.round(pc.multiply(values.cast(pa.float64()), 1e6)).cast(pa.int64())
    return pc.binary_join_element_wise(encode_text(microseconds), "microseconds", " ")


# The fields of a message that a frame may set: how each is encoded, and the Spark types that it may have.
COLUMNS: dict[str, tuple[Encode, tuple[type[spark.DataType], ...]]] = {
    "handler": (encode_text, (spark.StringType,)),
    "payload": (encode_json, (spark.StringType, *NESTED)),
    "queue": (encode_text, (spark.StringType,)),
    "channel": (encode_text, (spark.StringType,)),
    "body": (encode_body, (spark.BinaryType,)),
    "headers": (encode_json, (spark.StringType, *NESTED)),
    "priority": (encode_text, WHOLE),
    "dequeue_at": (encode_text, (spark.TimestampType, spark.TimestampNTZType)),
    "delay": (encode_interval, (spark.DayTimeIntervalType, *NUMBER)),
    "max_attempts": (encode_text, WHOLE),
    "backoff": (encode_interval, (spark.DayTimeIntervalType, *NUMBER)),
    "backoff_factor": (encode_text, NUMBER),
    "backoff_longest": (encode_interval, (spark.DayTimeIntervalType, *NUMBER)),
    "dedupe_key": (encode_text, (spark.StringType,)),
    "order_key": (encode_text, (spark.StringType,)),
    "cost": (encode_text, WHOLE),
    "limits": (encode_json, (spark.StringType, spark.ArrayType)),
}


class RowEncoder:
    """Encode the rows of one frame. ``constants``: values for columns that are absent, or NULL in a row.

    Raises PipelineError when the frame has columns that no message has, of the wrong type, or too few.
    """

    def __init__(self, schema: spark.StructType, constants: Mapping[str, str]) -> None:
        self.columns = [checked_column(field) for field in schema.fields]
        self.constants = dict(constants)
        if len(set(self.columns)) < len(self.columns):
            raise PipelineError("A column is there twice; upper and lower case are the same.")
        if "handler" not in {*self.columns, *constants}:
            raise PipelineError("There is no column handler, and no option handler that names one for all rows.")
        if "payload" not in self.columns:
            raise PipelineError("There is no column payload: make it with to_json(struct(…)), or name a struct so.")

    @property
    def absent(self) -> dict[str, str]:
        """Return the constants that are not among the columns."""
        return {name: value for name, value in self.constants.items() if name not in self.columns}

    def pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return the batch in pieces of about PIECE_BYTES."""
        rows = max(1, PIECE_BYTES * batch.num_rows // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the rows of a batch in COPY's text format, each as one line. Raises BadRowError."""
        try:
            return self._lines(batch)
        except BadRowError as error:
            # A column is encoded as a whole: each row alone shows which it is.
            for row in range(batch.num_rows if batch.num_rows > 1 else 0):
                try:
                    self._lines(batch.slice(row, 1))
                except BadRowError as found:
                    raise BadRowError(found.column, found.problem, row) from None
            raise error from None

    def _lines(self, batch: pa.RecordBatch) -> pa.Array:
        values = []
        for name, column in zip(self.columns, batch.columns, strict=True):
            encode, _ = COLUMNS[name]
            try:
                encoded = encode_text(column) if pa.types.is_null(column.type) else encode(column)
            except pa.ArrowException:
                # Its text would repeat the value.
                raise BadRowError(name, "its value is out of range") from None
            except ValueError as error:
                raise BadRowError(name, str(error)) from None
            if name in self.constants:
                encoded = encoded.fill_null(self.constants[name])
            values.append(escaped(encoded))
        return pc.binary_join_element_wise(*values, "\t", null_handling="replace", null_replacement="\\N")


def joined(lines: pa.Array) -> bytes:
    """Return the lines as one text."""
    text = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")
    copied: bytes = text[0].as_buffer().to_pybytes()
    return copied + b"\n"


def checked_column(field: spark.StructField) -> str:
    """Check a field of the frame, and return the name of its column in PostgreSQL. Raises PipelineError."""
    name = field.name.lower()
    if name not in COLUMNS:
        raise PipelineError(
            f'A message has no column "{field.name}"; it has {", ".join(COLUMNS)}. '
            "Put values for the handler into payload."
        )
    _, kinds = COLUMNS[name]
    if not isinstance(field.dataType, (*kinds, spark.NullType)):
        wanted = ", ".join(kind.typeName() for kind in kinds)
        raise PipelineError(f"The column {name} is {field.dataType.simpleString()}; it may be {wanted}.")
    return name


def escaped(values: pa.Array) -> pa.Array:
    """Return text with the escapes of COPY's text format."""
    for character, escape in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        if pc.any(pc.match_substring(values, character)).as_py():
            values = pc.replace_substring(values, character, escape)
    return values
