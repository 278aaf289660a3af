"""Check the settings of the pipeline, without a database and without importing Spark."""

from __future__ import annotations

from importlib.util import find_spec

from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution

from django_pgqueue.checks.migrated import INSTALL_PIPELINE, NAMES
from django_pgqueue.conf import settings
from django_pgqueue.sql.files import PIPELINE

# Only the pipeline reads these settings.
SETTINGS = ("LAKE", "KEEP_UNTIL_EXPORTED", "SLA")


def lake_messages() -> list[CheckMessage]:
    """Return the problems of the settings LAKE, KEEP_UNTIL_EXPORTED and SLA."""
    if messages := check_app():
        return messages
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if settings.LAKE is not None and missing:
        messages.append(
            Caution(
                f"DJANGO_PGQUEUE['LAKE'] is set, but {' and '.join(missing)} cannot be imported here.",
                hint='pip install "pgqueue-django[spark]" where pgqueue lake runs; elsewhere, silence this check.',
                id="pgqueue.W002",
            )
        )
    if settings.KEEP_UNTIL_EXPORTED and settings.LAKE is None:
        messages.append(
            Caution(
                "DJANGO_PGQUEUE['KEEP_UNTIL_EXPORTED'] is set without LAKE: if nothing exports, the archive grows for "
                "ever.",
                hint="Set LAKE and run manage.py pgqueue lake export regularly; silence this check if exports run "
                "elsewhere.",
                id="pgqueue.W003",
            )
        )
    return messages


def check_app() -> list[CheckMessage]:
    """Return an error if settings of the pipeline are set, and its app is not installed."""
    given = [name for name in SETTINGS if getattr(settings, name)]
    if not given or apps.is_installed(NAMES[PIPELINE]):
        return []
    kept = " Retention would drop nothing." if "KEEP_UNTIL_EXPORTED" in given else ""
    return [
        Error(
            f"DJANGO_PGQUEUE sets {' and '.join(given)} for the pipeline, whose app {NAMES[PIPELINE]!r} is not "
            f"installed.{kept}",
            hint=f"{INSTALL_PIPELINE} Without a lake, remove the setting.",
            id="pgqueue.E022",
        )
    ]
