"""The database that the pipeline reads: how to connect, and short reads as Arrow batches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from django_pgqueue.spark.errors import NO_TABLES, PIPELINE, PipelineError

if TYPE_CHECKING:
    import pyarrow as pa


def only(cursor: psycopg.Cursor[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the only row of a statement. Raises LookupError if there is none."""
    row = cursor.fetchone()
    if row is None:
        raise LookupError("the statement has no row")
    return row


COLUMNS = """
SELECT a.attname, format_type(a.atttypid, NULL) FROM pg_attribute AS a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""


def columns_of(connection: psycopg.Connection[Any], table: str) -> dict[str, str]:
    """Return the columns of a table with their types; an older database has fewer. Without the table there are none."""
    return dict(connection.execute(COLUMNS, [table]).fetchall())


VARIABLE = "PGQUEUE_SOURCE"
HIDDEN = "********"
SECRETS = ("password", "sslpassword")
# SQLSTATEs: the connection, the server's end or start, too many connections.
LOST = ("08", "57P", "53300")
CONNECTION_FAILED = "08006"
SQLSTATE = re.compile(r"SQLSTATE: (\w{5})")
BATCH_BYTES = 16 * 1024 * 1024
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
    """The connection broke, or could not be made. A later attempt may succeed."""


class TableGone(PipelineError):
    """The table does not exist, or was dropped."""


@dataclass(frozen=True, slots=True, repr=False)
class Source:
    """A database, made by ``parse`` or ``from_environment``. It travels to Spark's workers; its repr has no password.

    ``parameters`` are those of libpq, such as host, dbname or service.
    """

    parameters: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> Source:
        """Return the source that ``postgresql://…``, ``host=… dbname=…`` or ``service=…`` names; "" means the variables
        PG*.

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
        """Return the source that PGQUEUE_SOURCE names, or else PGHOST, PGDATABASE, PGSERVICE and so on. Raises
        PipelineError.
        """
        return cls.parse(os.environ.get(VARIABLE, ""))

    @property
    def conninfo(self) -> str:
        """Return the connection string for libpq, with the password."""
        return make_conninfo("", **dict(self.parameters))

    def __str__(self) -> str:
        shown = {name: value for name, value in self.parameters if name not in DEFAULTS}
        return " ".join(f"{name}={HIDDEN if name in SECRETS else value}" for name, value in shown.items()) or "PG*"

    def __repr__(self) -> str:
        return f"<Source {self}>"

    def redact(self, text: str) -> str:
        """Return the text without the password, in case a library has repeated it."""
        for name, value in self.parameters:
            if name in SECRETS and value:
                text = text.replace(value, HIDDEN)
        return text

    def connect(self, **options: Any) -> psycopg.Connection[Any]:
        """Open a session in UTC, in autocommit by default. Raises SourceLost."""
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

    def read(
        self, statements: Sequence[str], schema: pa.Schema, batch_bytes: int = BATCH_BYTES
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of statements, one after the other over one connection; without a statement, open none.

        The batches have about so many bytes and exactly this schema. Between statements no snapshot is held. Raises
        SourceLost, TableGone, PipelineError.
        """
        from adbc_driver_postgresql import StatementOptions, dbapi

        if not statements:
            return
        options = {StatementOptions.BATCH_SIZE_HINT_BYTES.value: str(batch_bytes)}
        with self.adbc_errors(), dbapi.connect(self.conninfo, autocommit=True) as connection:
            for statement in statements:
                with connection.cursor(adbc_stmt_kwargs=options) as cursor:
                    cursor.execute(statement)
                    for batch in cursor.fetch_record_batch():
                        yield batch.cast(schema)

    def identity(self) -> tuple[str, str]:
        """Return the cluster's system identifier, and the database in it (oid and name)."""
        with self.connect() as connection, self.errors():
            sql = (
                "SELECT c.system_identifier::text, d.oid || ' ' || d.datname"
                " FROM pg_control_system() AS c, pg_database AS d WHERE d.datname = current_database()"
            )
            cluster, database = only(connection.execute(sql))
        return cluster, database

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Convert errors of the database to PipelineError, in one line without the password."""
        try:
            yield
        except psycopg.OperationalError as error:
            raise self.error(error, error.sqlstate or CONNECTION_FAILED) from None
        except psycopg.Error as error:
            raise self.error(error, error.sqlstate or "") from None

    @contextmanager
    def adbc_errors(self) -> Iterator[None]:
        """Convert errors of ADBC as `errors` does those of psycopg."""
        import pyarrow as pa
        from adbc_driver_manager import Error

        try:
            yield
        except (Error, pa.ArrowException, OSError) as error:
            # A connection that breaks while rows come is an error of the Arrow stream.
            found = SQLSTATE.search(str(error))
            sqlstate = getattr(error, "sqlstate", None) or (found[1] if found else CONNECTION_FAILED)
            raise self.error(error, sqlstate) from None

    def error(self, error: Exception, sqlstate: str) -> PipelineError:
        """Return the exception for an error of a driver: TableGone, SourceLost or PipelineError, by its SQLSTATE.

        The text is in one line, without the password.
        """
        reason = " ".join(self.redact(str(error)).split())
        if sqlstate in (UNDEFINED_TABLE, UNDEFINED_FUNCTION) and PIPELINE.search(reason):
            return PipelineError(f"The database ({self}) cannot do this: {reason.partition(' LINE ')[0]}. {NO_TABLES}")
        if sqlstate == UNDEFINED_TABLE:
            return TableGone(f"The database ({self}) does not have a table: {reason}")
        if sqlstate.startswith(LOST):
            return SourceLost(f"The database ({self}) cannot be reached: {reason}")
        return PipelineError(f"The database ({self}) refused a statement: {reason}")


def _variables() -> dict[str, str]:
    """Return the parameters that the variables PG*, and the service that PGSERVICE names, set; not libpq's own
    defaults.
    """
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
