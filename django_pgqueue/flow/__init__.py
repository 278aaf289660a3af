"""Batches, messages that wait for others, progress and steps, in an app of its own: others have none of it."""

from django_pgqueue.flow.after import Ended, chain, results_of
from django_pgqueue.flow.batch import Batch, Counts, batch_of
from django_pgqueue.flow.reporting import Progress, aprogress, id_of_token, progress, progress_of, progress_token
from django_pgqueue.flow.steps import AsyncSteps, Cursor, Steps, anotify_event, asteps_of, notify_event, steps_of

__all__ = [
    "AsyncSteps",
    "Batch",
    "Counts",
    "Cursor",
    "Ended",
    "Progress",
    "Steps",
    "anotify_event",
    "aprogress",
    "asteps_of",
    "batch_of",
    "chain",
    "id_of_token",
    "notify_event",
    "progress",
    "progress_of",
    "progress_token",
    "results_of",
    "steps_of",
]
