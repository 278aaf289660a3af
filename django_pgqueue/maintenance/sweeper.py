"""Give back the messages that dead workers held."""

from __future__ import annotations

from django_pgqueue.lifecycle.sweep import SweepCounts, sweep


def run_once(using: str) -> SweepCounts:
    return sweep(using=using)
