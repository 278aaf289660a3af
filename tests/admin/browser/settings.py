"""The demo project behind a strict Content-Security-Policy; it says how long it took to answer."""

from datetime import timedelta

from testproject.settings import *  # noqa: F403
from testproject.settings import MIDDLEWARE

MIDDLEWARE = ["tests.admin.browser.strict.strict", "tests.admin.browser.strict.forgetful", *MIDDLEWARE]
DJANGO_PGQUEUE = {"MEASURE_INTERVAL": timedelta(seconds=1)}
DEBUG = True  # runserver serves the static files
