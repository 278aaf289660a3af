"""Batches of messages, in an app of its own: a project without it has none of its tables and functions."""

from django_pgqueue.flow.batch import Batch, Counts, batch_of

__all__ = ["Batch", "Counts", "batch_of"]
