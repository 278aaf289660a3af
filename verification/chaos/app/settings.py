"""Settings of the worker processes of a run: short times, so that there is much to see."""

import os
from datetime import timedelta

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS

from tests.support.sleeping import sleep_by_events

INSTALLED_APPS = [*INSTALLED_APPS, "verification.chaos.app", "verification.chaos.upgrade"]
DEBUG = False
sleep_by_events()
DJANGO_PGQUEUE = {
    "LEASE": timedelta(seconds=float(os.environ.get("CHAOS_LEASE", "3"))),
    "SWEEP_INTERVAL": timedelta(seconds=1),
    "POLL_INTERVAL": timedelta(seconds=0.5),
}
