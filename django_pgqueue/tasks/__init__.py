"""Run Django's Tasks framework on this queue. On Django 5.2 this needs the package django-tasks."""

from django_pgqueue.tasks.backend import PgQueueBackend
from django_pgqueue.tasks.bulk import aenqueue_many, enqueue_many
from django_pgqueue.tasks.decorator import task
from django_pgqueue.tasks.message import Call
from django_pgqueue.tasks.options import Options, options, options_of
from django_pgqueue.tasks.registry import register
from django_pgqueue.tasks.task import PgQueueTask

__all__ = [
    "Call",
    "Options",
    "PgQueueBackend",
    "PgQueueTask",
    "aenqueue_many",
    "enqueue_many",
    "options",
    "options_of",
    "register",
    "task",
]
