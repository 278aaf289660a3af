"""The smallest Django project around the queue; the server is the one in DATABASE_URL."""

import os

from django_pgqueue.embedded import parse_url

SECRET_KEY = "benchmark"
INSTALLED_APPS = ["pgtrigger", "django_pgqueue", "verification.benchmarks", "verification.benchmarks.peers"]
DATABASES = {"default": parse_url(os.environ["DATABASE_URL"])}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
