"""Batches, and messages that wait for others, in an app of its own: a project without it has none of its tables."""

from django_pgqueue.flow.after import Ended, chain, results_of
from django_pgqueue.flow.batch import Batch, Counts, batch_of

__all__ = ["Batch", "Counts", "Ended", "batch_of", "chain", "results_of"]
