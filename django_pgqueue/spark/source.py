"""The database that the pipeline reads: how to reach it, and short reads as Arrow batches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from django_pgqueue.spark.errors import NO_TABLES, PIPELINE, PipelineError
from django_pgqueue.spark.fetch import only

if TYPE_CHECKING:
    import pyarrow as pa

    from django_pgqueue.spark.reading import BatchReader

VARIABLE = "PGQUEUE_SOURCE"
HIDDEN = "********"
SECRETS = ("password", "sslpassword")
# SQLSTATEs: the connection, the server's end or start, too many connections.
LOST = ("08", "57P", "53300")
CONNECTION_FAILED = "08006"
UNDEFINED_TABLE = "42P01"
UNDEFINED_FUNCTION = "42883"
# A server that vanished is noticed within a minute, not within the two hours of TCP.
DEFAULTS = {
    "application_name": "pgqueue spark",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}


class SourceLost(PipelineError):
    """The connection broke, or could not be made: the same may work again in a while."""


class TableGone(PipelineError):
    """The table is not there, or not any more."""


@dataclass(frozen=True, slots=True, repr=False)
class Source:
    """A database; made by ``parse`` or ``from_environment``. It travels to Spark's workers, and shows no password.

    ``parameters`` are those of libpq, such as host, dbname or service.
    """

    parameters: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> Source:
        """The source that ``postgresql://…``, ``host=… dbname=…`` or ``service=…`` names; "": the variables PG*.

        Raises PipelineError, which does not repeat the text: there may be a password in it.
        """
        try:
            given = conninfo_to_dict(text)
        except psycopg.ProgrammingError:
            raise PipelineError(
                "The source is no valid connection string: give postgresql://user@host:5432/database, "
                "'host=… dbname=… user=…' or service=… (special characters of a URL are written as %XX)."
            ) from None
        named = "service" in given
        # Workers may run on other machines, where the variables of this one are not set.
        from_variables = {} if named else _variables()
        parameters = {**DEFAULTS, **from_variables, **{name: str(value) for name, value in given.items()}}
        return cls(tuple(sorted(parameters.items())))

    @classmethod
    def from_environment(cls) -> Source:
        """The source that the variable PGQUEUE_SOURCE names, else PGHOST, PGDATABASE, PGSERVICE and so on."""
        return cls.parse(os.environ.get(VARIABLE, ""))

    @property
    def conninfo(self) -> str:
        """For libpq, with the password."""
        return make_conninfo("", **dict(self.parameters))

    def __str__(self) -> str:
        shown = {name: value for name, value in self.parameters if name not in DEFAULTS}
        return " ".join(f"{name}={HIDDEN if name in SECRETS else value}" for name, value in shown.items()) or "PG*"

    def __repr__(self) -> str:
        return f"<Source {self}>"

    def redact(self, text: str) -> str:
        """The text without the password, should a library have repeated it."""
        for name, value in self.parameters:
            if name in SECRETS and value:
                text = text.replace(value, HIDDEN)
        return text

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """A session in UTC, in autocommit unless told otherwise. Raises SourceLost."""
        with self.errors():
            connection = psycopg.connect(self.conninfo, **{"autocommit": True, **options})
            try:
                connection.execute("SET TIME ZONE 'UTC'")
                if not connection.autocommit:
                    connection.commit()
            except BaseException:
                connection.close()
                raise
            return connection

    def batches(self, sql: str, schema: pa.Schema, *, adbc: bool | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of one statement, on a connection of its own, in batches of about 16 MB, of exactly this schema.

        ADBC reads them where it is installed (``adbc``: whether it shall), else psycopg. Raises SourceLost, TableGone,
        PipelineError.
        """
        with self.reader(adbc=adbc) as reader:
            yield from reader.batches(sql, schema)

    @contextmanager
    def reader(self, **options: Any) -> Iterator[BatchReader]:
        """For several statements on one connection; ``reader.batches(sql, schema)`` as above."""
        from django_pgqueue.spark.reading import reading

        with reading(self, **options) as reader:
            yield reader

    def identity(self) -> tuple[str, str]:
        """Which cluster (its system identifier) and which database in it (oid and name) this is."""
        with self.connect() as connection, self.errors():
            sql = (
                "SELECT c.system_identifier::text, d.oid || ' ' || d.datname"
                " FROM pg_control_system() AS c, pg_database AS d WHERE d.datname = current_database()"
            )
            cluster, database = only(connection.execute(sql))
        return cluster, database

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Errors of the database become PipelineError in one line, without the password."""
        try:
            yield
        except psycopg.OperationalError as error:
            raise self.error(error, error.sqlstate or CONNECTION_FAILED) from None
        except psycopg.Error as error:
            raise self.error(error, error.sqlstate or "") from None

    def error(self, error: Exception, sqlstate: str) -> PipelineError:
        told = " ".join(self.redact(str(error)).split())
        if sqlstate in (UNDEFINED_TABLE, UNDEFINED_FUNCTION) and PIPELINE.search(told):
            return PipelineError(f"The database ({self}) cannot do this: {told.partition(' LINE ')[0]}. {NO_TABLES}")
        if sqlstate == UNDEFINED_TABLE:
            return TableGone(f"The database ({self}) does not have a table: {told}")
        if sqlstate.startswith(LOST):
            return SourceLost(f"The database ({self}) cannot be reached: {told}")
        return PipelineError(f"The database ({self}) refused a statement: {told}")


def _variables() -> dict[str, str]:
    """What the variables PG*, and the service that PGSERVICE names, say: not libpq's own defaults."""
    found = {}
    for option in pq.Conninfo.get_defaults():
        default = option.compiled.decode() if option.compiled else ""
        value = option.val.decode() if option.val else ""
        name = option.keyword.decode()
        by_variable = option.envvar and os.environ.get(option.envvar.decode())
        if value and (by_variable or ("PGSERVICE" in os.environ and value != default)):
            found[name] = value
    found.pop("service", None)
    return found
