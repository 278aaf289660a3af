"""The pruner: makes the archive's partitions ahead, and drops what retention does not keep."""

from __future__ import annotations

from django_pgqueue.lifecycle.prune import PruneCounts, prune


def run_once(using: str) -> PruneCounts:
    return prune(using=using)
