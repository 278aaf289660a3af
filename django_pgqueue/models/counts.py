from __future__ import annotations

import json
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper


class Numbers(models.Field):  # type: ignore[type-arg]  # fields cannot be subscripted at run time
    """Write a list of numbers into a dump as JSON, and read it there. The database has it as an array."""

    def value_to_string(self, obj: models.Model) -> str:
        return json.dumps(self.value_from_object(obj))

    def to_python(self, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value


class Counts(Numbers):
    """A column of type integer[]. With ArrayField, Django 6 refuses a project without django.contrib.postgres."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "integer[]"


class Ids(Numbers):
    """A column of type bigint[], for the same reason."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        return "bigint[]"
