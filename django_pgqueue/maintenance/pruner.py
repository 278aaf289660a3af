"""The pruner: makes the archive's partitions ahead, and drops what retention does not keep."""

from __future__ import annotations

from django_pgqueue.lifecycle.prune import PruneCounts, prune
from django_pgqueue.lifecycle.schedule_prune import schedule_prune


def run_once(using: str) -> PruneCounts:
    schedule_prune(using=using)
    return prune(using=using)
