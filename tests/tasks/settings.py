"""Settings of the worker processes, and the setting TASKS of all tests here."""

from testproject.settings import *  # noqa: F403

TASKS = {
    "default": {
        "BACKEND": "django_pgqueue.tasks.PgQueueBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"MODULES": ["tests.tasks.defined"]},
    },
    "other": {"BACKEND": "django_pgqueue.tasks.PgQueueBackend", "QUEUES": [], "OPTIONS": {"CHANNEL": "tenant"}},
    "dummy": {"BACKEND": "tests.tasks.dummy.DummyBackend"},
}
