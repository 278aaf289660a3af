"""Give back the messages whose leases have expired."""

from __future__ import annotations

from django_pgqueue.lifecycle.sweep import SweepCounts, sweep


def run_once(using: str) -> SweepCounts:
    """Run one sweep on the database ``using``. Returns its counts. Raises the database's error."""
    return sweep(using=using)
