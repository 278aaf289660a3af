"""Give back the messages whose leases have expired."""

from __future__ import annotations

from django_pgqueue.lifecycle.upkeep import SweepCounts, sweep


def run_once(using: str) -> SweepCounts:
    """Give back the messages whose leases have expired, and do the rest of a sweep, once. Returns the counts.

    ``using``: database alias. Raises the database's error.
    """
    return sweep(using=using)
