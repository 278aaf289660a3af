"""Which database a call goes to."""

from __future__ import annotations

from django.apps import apps
from django.db import router

from django_pgqueue.conf import settings


def alias(using: str | None) -> str:
    """``using``, or the setting DATABASE, or what the routers say for writing a message."""
    return using or settings.DATABASE or router.db_for_write(apps.get_model("pgqueue", "Message"))
