from __future__ import annotations

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class Counts(models.Field):  # type: ignore[type-arg]  # fields cannot be subscripted at run time
    """A column of type integer[]. With ArrayField, Django 6 refuses a project without django.contrib.postgres."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "integer[]"


class Ids(models.Field):  # type: ignore[type-arg]  # fields cannot be subscripted at run time
    """A column of type bigint[], for the same reason."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "bigint[]"
