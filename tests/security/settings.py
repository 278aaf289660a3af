"""Settings of the worker that runs as a role of its own."""

from datetime import timedelta

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS

# A prune gives way to who is at work, and the next one does what it has left.
DJANGO_PGQUEUE = {"PRUNE_INTERVAL": timedelta(seconds=5)}

INSTALLED_APPS = [*INSTALLED_APPS, "tests.security.echo"]
TASKS = {"default": {"BACKEND": "django_pgqueue.tasks.PgQueueBackend"}}
