"""The settings of Django's own runner, on the database of this project."""

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS

from tests.tasks.django_suite import stand_ins

# Django's backends do not try again.
DJANGO_PGQUEUE = {"MAX_ATTEMPTS": 1}
INSTALLED_APPS = [app for app in INSTALLED_APPS if app != "flights"]
# Before the apps are ready: they look for the backends of TASKS.
stand_ins.take_their_places()
