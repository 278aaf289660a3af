"""Small database expressions that the models' defaults and indexes are made of."""

from django.db import models


class ClockTimestamp(models.Func):
    """The database clock at this very moment; now() would be the start of a transaction that may be minutes old."""

    function = "clock_timestamp"
    output_field = models.DateTimeField()


class StatementTimestamp(models.Func):
    """The database clock when the statement began: unlike ClockTimestamp it is one moment, so an index can be asked."""

    function = "statement_timestamp"
    output_field = models.DateTimeField()


class Negated(models.Func):
    """``- expression``, so that the highest priority comes first in an ascending index."""

    template = "- %(expressions)s"
    arity = 1
