"""Times, durations and JSON that PostgreSQL has and Python has not: a row that holds one can still be read.

The tables and the verbs refuse them, but an old row, or one that a superuser wrote, must not take a page or a command
away from all the others. And JSON that Python has and PostgreSQL has not, or that is too large: it is not sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models
from psycopg.types.json import Jsonb

from django_pgqueue.jsonb import to_json

if TYPE_CHECKING:
    # To mypy they are what they are to migrations.
    Moment = models.DateTimeField
    Span = models.DurationField
    Json = models.JSONField
    MessageJson = models.JSONField
else:

    class _Tolerant(models.Field):
        """A field of Django, ``known_as``, that reads more."""

        known_as: str

        def deconstruct(self) -> Any:
            name, _, args, kwargs = super().deconstruct()
            return name, f"django.db.models.{self.known_as}", args, kwargs

    class _Clamped(_Tolerant):
        """Reads what lies outside of ``bounds`` as the nearer bound, which every time zone can show."""

        bounds: tuple[str, str]

        def select_format(self, compiler: Any, sql: str, params: Any) -> tuple[str, Any]:
            if compiler.query.distinct:  # PostgreSQL orders what is distinct by what is selected, letter by letter.
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
        """Reads JSON that is too deep or has numbers too long for Python as the text that it is."""

        known_as = "JSONField"

        def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
            try:
                return super().from_db_value(value, expression, connection)
            except (ValueError, RecursionError):
                return value

    class MessageJson(_Tolerant, models.JSONField):
        """Refuses on the client what ``enqueue`` refuses: an error of the server would quote a part of the value."""

        known_as = "JSONField"

        def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
            adapted = super().get_db_prep_value(value, connection, prepared)
            if isinstance(adapted, Jsonb):
                return Jsonb(adapted.obj, dumps=lambda given: to_json(given, self.name) or "null")
            return adapted
