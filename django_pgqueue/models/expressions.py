"""Define small database expressions for the models' defaults and indexes."""

from django.db import models


class ClockTimestamp(models.Func):
    """Return the database's clock at this moment; now() would be the start of a transaction that may be minutes old."""

    function = "clock_timestamp"
    output_field = models.DateTimeField()


class StatementTimestamp(models.Func):
    """Return the database's clock at the start of the statement. Unlike ClockTimestamp it is constant, so an index can
    be used."""

    function = "statement_timestamp"
    output_field = models.DateTimeField()


class Negated(models.Func):
    """Return ``- expression``, so that the highest priority comes first in an ascending index."""

    template = "- %(expressions)s"
    arity = 1
