"""Batches, messages that wait for others, and progress, in an app of its own: a project without it has none of it."""

from django_pgqueue.flow.after import Ended, chain, results_of
from django_pgqueue.flow.batch import Batch, Counts, batch_of
from django_pgqueue.flow.reporting import Progress, aprogress, id_of_token, progress, progress_of, progress_token

__all__ = [
    "Batch",
    "Counts",
    "Ended",
    "Progress",
    "aprogress",
    "batch_of",
    "chain",
    "id_of_token",
    "progress",
    "progress_of",
    "progress_token",
    "results_of",
]
