"""Shows the pages of the pipeline in the admin's index only where there is a pipeline."""

from __future__ import annotations

from importlib.util import find_spec

from django.db import DatabaseError, transaction
from django.http import HttpRequest

from django_pgqueue.admin.base import ReadOnlyAdmin
from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.models import Lake

KNOWN = "_pgqueue_has_pipeline"


class PipelineAdmin(ReadOnlyAdmin):
    """Left out of the admin's index without a pipeline. Its address works all the same."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return super().has_module_permission(request) and has_pipeline(request)


def has_pipeline(request: HttpRequest) -> bool:
    """Return whether PySpark is installed here, the setting LAKE is set, or a lake has been exported from elsewhere.

    The database is asked at most once a request, and only when neither of the others is true.
    """
    if not hasattr(request, KNOWN):
        setattr(request, KNOWN, find_spec("pyspark") is not None or settings.LAKE is not None or has_lake())
    found: bool = getattr(request, KNOWN)
    return found


def has_lake() -> bool:
    using = alias(None)
    try:
        with transaction.atomic(using=using):
            return Lake.objects.using(using).exists()
    except DatabaseError:  # not migrated, or away: the index has other pages, too
        return False
