"""Measure the queues, for the figures of the dashboard."""

from __future__ import annotations

from django_pgqueue.lifecycle.upkeep import MeasureCounts, measure


def run_once(using: str) -> MeasureCounts:
    """Measure the queues once on the database ``using``. Returns the counts. Raises the database's error."""
    return measure(using=using)
