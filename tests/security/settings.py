"""Of the worker that runs as a role of its own."""

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.security.echo"]
TASKS = {"default": {"BACKEND": "django_pgqueue.tasks.PgQueueBackend"}}
