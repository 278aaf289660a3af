from __future__ import annotations

from django.db.models import Model

APPS = ("pgqueue", "pgqueue_pipeline", "pgqueue_flow")


class QueueRouter:
    """The queue's tables on an alias of their own."""

    def db_for_read(self, model: type[Model], **hints: object) -> str | None:
        return "queue" if model._meta.app_label in APPS else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool:
        return (db == "queue") == (app_label in APPS)
