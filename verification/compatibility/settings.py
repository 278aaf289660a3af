"""The demo's settings, changed as the variable COMPATIBILITY says."""

import json
import os

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES, INSTALLED_APPS

from django_pgqueue.embedded.settings import parse_url

VARIANT = json.loads(os.environ.get("COMPATIBILITY", "{}"))

WITHOUT = {"flights", *VARIANT.get("without", [])}
INSTALLED_APPS = [app for app in INSTALLED_APPS if app not in WITHOUT] + ["verification.compatibility.shop"]
ROOT_URLCONF = VARIANT.get("urls", "verification.compatibility.shop.urls")
DEBUG = False
DJANGO_PGQUEUE = VARIANT.get("queue", {})
LOGGING_CONFIG = None
ALLOWED_HOSTS = ["localhost"]
DATABASES["default"]["OPTIONS"] = {**DATABASES["default"].get("OPTIONS", {}), **VARIANT.get("options", {})}
DATABASES["default"]["ATOMIC_REQUESTS"] = VARIANT.get("atomic_requests", False)
if "queue_url" in VARIANT:
    DATABASES["queue"] = parse_url(VARIANT["queue_url"])
    DATABASE_ROUTERS = ["verification.compatibility.shop.router.QueueRouter"]
