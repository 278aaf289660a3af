"""A small project of a user: what its tests need of the queue is what test_project.py is about."""

from pathlib import Path

import django

from django_pgqueue.embedded import databases

SECRET_KEY = "tests"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "pgtrigger", "django_pgqueue", "shop"]
DATABASES = databases(Path(__file__).parent)
DATABASES["default"]["TEST"] = {"NAME": "pgqueue_of_a_project"}
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
