"""Choose the database of a call."""

from __future__ import annotations

from django.apps import apps
from django.db import router

from django_pgqueue.conf import settings


def alias(using: str | None) -> str:
    """Return ``using``, or else the setting DATABASE, or else the database that the routers give for writing a
    message."""
    return using or settings.DATABASE or router.db_for_write(apps.get_model("pgqueue", "Message"))
