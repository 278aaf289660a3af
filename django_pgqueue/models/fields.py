"""Read times, durations and JSON that PostgreSQL can hold and Python cannot, so that such a row can still be read.

The tables and the verbs refuse such values, but an old row, or one that a superuser wrote, must not break a page or a
command for all other rows. JSON that Python can hold and PostgreSQL cannot, or that is too large, is refused before it
is sent.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db import models
from psycopg.types.json import Jsonb

from django_pgqueue.jsonb import to_json
from django_pgqueue.sql.values import duration_of

if TYPE_CHECKING:
    # For mypy, as for migrations, they are Django's fields.
    Moment = models.DateTimeField
    Span = models.DurationField
    Json = models.JSONField
    MessageJson = models.JSONField
else:

    class _Tolerant(models.Field):
        """Read more values than the field of Django that is named by ``known_as``."""

        known_as: str

        def deconstruct(self) -> Any:
            name, _, args, kwargs = super().deconstruct()
            return name, f"django.db.models.{self.known_as}", args, kwargs

    class Moment(_Tolerant, models.DateTimeField):
        """Read a time outside of ``bounds`` as the nearer bound, which every time zone can show."""

        known_as = "DateTimeField"
        bounds = ("0001-01-02 00:00+00", "9999-12-30 00:00+00")

        def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
            if compiler.query.distinct:  # With DISTINCT, PostgreSQL needs the very same expression in ORDER BY.
                return sql, params
            first, last = self.bounds
            clamped = f"CASE WHEN {sql} < '{first}' THEN '{first}' WHEN {sql} > '{last}' THEN '{last}' ELSE {sql} END"
            return clamped, (*params, *params, *params)

    class Span(_Tolerant, models.DurationField):
        """Read a duration as a number, because psycopg reads only one ``IntervalStyle``, and one that is too long for
        Python as the longest."""

        known_as = "DurationField"
        db_returning = False  # RETURNING would return the interval itself; each db_default has a default beside it

        def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
            # A subquery returns the interval itself, and with DISTINCT it may be in ORDER BY.
            if compiler.query.distinct or compiler.query.subquery:
                return sql, params
            return f"extract(epoch FROM {sql})", params

        def from_db_value(self, value: Any, expression: Any, connection: Any) -> timedelta | None:
            return duration_of(value) if isinstance(value, Decimal) else value

    class Json(_Tolerant, models.JSONField):
        """Read JSON that is too deep or has too long numbers for Python as text."""

        known_as = "JSONField"

        def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
            try:
                return super().from_db_value(value, expression, connection)
            except (ValueError, RecursionError):
                return value

    class MessageJson(Json):
        """Refuse on the client what ``enqueue`` refuses: an error of the server would quote a part of the value."""

        def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
            adapted = super().get_db_prep_value(value, connection, prepared)
            if isinstance(adapted, Jsonb):
                return Jsonb(adapted.obj, dumps=lambda given: to_json(given, self.name) or "null")
            return adapted
