"""Spark looks in packages named ``pyspark_*`` for a DefaultSource: this one makes ``format("pgqueue")`` work."""

from django_pgqueue.spark.datasource import PgQueueDataSource as DefaultSource

__all__ = ["DefaultSource"]
