"""Read times, durations and JSON that PostgreSQL can hold and Python cannot, so that such a row can still be read.

The tables and the verbs refuse such values, but an old row, or one that a superuser wrote, must not break a page or a
command for all other rows. JSON that Python can hold and PostgreSQL cannot, or that is too large, is refused before it
is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from psycopg.types.json import Jsonb

from django_pgqueue.jsonb import to_json

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

    class _Clamped(_Tolerant):
        """Read a value outside of ``bounds`` as the nearer bound, which every time zone can show."""

        bounds: tuple[str, str]

        def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
            if compiler.query.distinct:  # With DISTINCT, PostgreSQL needs the very same expression in ORDER BY.
                return sql, params
            first, last = self.bounds
            clamped = f"CASE WHEN {sql} < '{first}' THEN '{first}' WHEN {sql} > '{last}' THEN '{last}' ELSE {sql} END"
            return clamped, (*params, *params, *params)

    class Moment(_Clamped, models.DateTimeField):
        known_as = "DateTimeField"
        bounds = ("0001-01-02 00:00+00", "9999-12-30 00:00+00")

    class Span(_Clamped, models.DurationField):
        known_as = "DurationField"
        bounds = ("-999999 days", "999999 days")

    class Json(_Tolerant, models.JSONField):
        """Read JSON that is too deep or has too long numbers for Python as text."""

        known_as = "JSONField"

        def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
            try:
                return super().from_db_value(value, expression, connection)
            except (ValueError, RecursionError):
                return value

    class MessageJson(_Tolerant, models.JSONField):
        """Refuse on the client what ``enqueue`` refuses: an error of the server would quote a part of the value."""

        known_as = "JSONField"

        def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
            adapted = super().get_db_prep_value(value, connection, prepared)
            if isinstance(adapted, Jsonb):
                return Jsonb(adapted.obj, dumps=lambda given: to_json(given, self.name) or "null")
            return adapted
