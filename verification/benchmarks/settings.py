"""The smallest Django project around the queue; the server is the one in DATABASE_URL."""

import os

from django_pgqueue.embedded import parse_url

SECRET_KEY = "benchmark"
INSTALLED_APPS = ["pgtrigger", "django_pgqueue", "verification.benchmarks", "verification.benchmarks.peers"]
DATABASES = {"default": parse_url(os.environ["DATABASE_URL"])}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
if "PGQUEUE_SILENT" in os.environ:
    # The log of a worker whose handlers fail would fill the pipe to the benchmark.
    LOGGING = {
        "version": 1,
        "handlers": {"none": {"class": "logging.NullHandler"}},
        "loggers": {"django_pgqueue": {"handlers": ["none"]}},
    }
