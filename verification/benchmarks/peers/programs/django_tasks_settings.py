"""The smallest project around django-tasks-db."""

import os
from urllib.parse import parse_qs, urlsplit

_url = urlsplit(os.environ["DATABASE_URL"])

SECRET_KEY = "benchmark"
INSTALLED_APPS = ["django_tasks", "django_tasks_db"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _url.path[1:],
        "USER": _url.username,
        "HOST": parse_qs(_url.query)["host"][0],
        # Django's default is a connection a message: the worker closes what is older than this after each.
        "CONN_MAX_AGE": int(os.environ.get("CONN_MAX_AGE", 0)),
    }
}
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
USE_TZ = True
