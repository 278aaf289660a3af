"""Settings of the worker processes under test."""

import os
import threading
import time
from pathlib import Path

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES, INSTALLED_APPS

from django_pgqueue.embedded import parse_url

INSTALLED_APPS = [*INSTALLED_APPS, "tests.worker.scripted", *os.environ.get("EXTRA_APPS", "").split()]

# A test breaks the code under the feet of the worker.
if Path(os.environ.get("BROKEN", "/nonexistent")).exists():
    raise ImportError("the settings are broken")

# libfaketime, which makes the clock wrong, takes an absolute time for a relative one in time.sleep.
if "FAKETIME" in os.environ:
    time.sleep = lambda seconds: threading.Event().wait(seconds) and None

# A direct connection, for a worker behind a pooler.
if url := os.environ.get("LISTEN_URL"):
    DATABASES = {**DATABASES, "direct": parse_url(url)}
    DJANGO_PGQUEUE = {"LISTEN_DATABASE": "direct"}
