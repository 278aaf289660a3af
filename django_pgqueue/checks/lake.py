"""Checks of the settings for the lake; no database is asked, and nothing of Spark is imported."""

from __future__ import annotations

from importlib.util import find_spec

from django.core.checks import CheckMessage
from django.core.checks import Warning as Caution

from django_pgqueue.conf import settings


def check() -> list[CheckMessage]:
    messages: list[CheckMessage] = []
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if settings.LAKE is not None and missing:
        messages.append(
            Caution(
                f"DJANGO_PGQUEUE['LAKE'] is set, but {' and '.join(missing)} cannot be imported here.",
                hint='pip install "pgqueue-django[spark]" where queuelake runs; elsewhere, silence this check.',
                id="pgqueue.W002",
            )
        )
    if settings.KEEP_UNTIL_EXPORTED and settings.LAKE is None:
        messages.append(
            Caution(
                "DJANGO_PGQUEUE['KEEP_UNTIL_EXPORTED'] is set without LAKE: if nothing exports, the archive grows for "
                "ever.",
                hint="Set LAKE and run manage.py queuelake export regularly; silence this check if exports run "
                "elsewhere.",
                id="pgqueue.W003",
            )
        )
    return messages
