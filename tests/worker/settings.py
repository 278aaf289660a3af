"""Settings of the worker processes under test."""

import os
from pathlib import Path

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES, INSTALLED_APPS

from django_pgqueue.embedded import parse_url
from tests.support.sleeping import sleep_by_events

INSTALLED_APPS = [*INSTALLED_APPS, "tests.worker.scripted", *os.environ.get("EXTRA_APPS", "").split()]

# A test breaks the code under the feet of the worker.
if Path(os.environ.get("BROKEN", "/nonexistent")).exists():
    raise ImportError("the settings are broken")

sleep_by_events()

# A direct connection, for a worker behind a pooler.
if url := os.environ.get("LISTEN_URL"):
    DATABASES = {**DATABASES, "direct": parse_url(url)}
    DJANGO_PGQUEUE = {"LISTEN_DATABASE": "direct"}

if most := os.environ.get("MAX_INTERRUPTIONS"):
    DJANGO_PGQUEUE = {"MAX_INTERRUPTIONS": int(most)}
