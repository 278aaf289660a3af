"""The admin of the lakes: how old the last export of each is, and how many rows it has."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db import models
from django.db.models import ExpressionWrapper, F, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import ReadOnlyAdmin
from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.models.fields import Span
from django_pgqueue.pipeline.models import Lake

LATE = timedelta(days=1, hours=1)
"""An export each night is in time."""
DAYS = 40


@admin.register(Lake)
class LakeAdmin(ReadOnlyAdmin):
    """Show the lakes that exports have registered.

    An operator who gives up a lake deletes its row, because retention waits for every lake that has one.
    """

    list_display = ["name_shown", "age", "exported_at", "archived", "dead", "path_shown"]
    search_fields = ["name"]
    sortable_by = ["name_shown", "exported_at"]
    fields = ["name", "path", "exported_at", "age", "exported_xid", "archived", "dead", "days"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Lake]:
        # The age is by the clock that wrote exported_at: this host's may be wrong.
        age = ExpressionWrapper(ClockTimestamp() - F("exported_at"), output_field=Span())
        found: QuerySet[Lake] = super().get_queryset(request).annotate(behind=age)
        return found

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    @admin.display(description=_("name"), ordering="name")
    def name_shown(self, lake: Lake) -> str:
        return rendering.name(lake.name)

    @admin.display(description=_("path"))
    def path_shown(self, lake: Lake) -> str:
        return rendering.name(lake.path)

    @admin.display(description=_("last export"))
    def age(self, lake: Any) -> str:
        """Return a badge with the time since the last export, late after LATE."""
        text = _("%s ago") % rendering.duration(lake.behind)
        return rendering.badge(text, "late" if lake.behind > LATE else "good")

    @admin.display(description=_("archived messages"))
    def archived(self, lake: Lake) -> str:
        return rendering.number(sum(rows_by_day(lake, "archive").values()))

    @admin.display(description=_("dead letters"))
    def dead(self, lake: Lake) -> str:
        return rendering.number(sum(rows_by_day(lake, "dead_letter").values()))

    @admin.display(description=_("archived messages by day"))
    def days(self, lake: Lake) -> str:
        """Return the numbers of archived rows of the newest DAYS days, as an HTML list."""
        newest = sorted(rows_by_day(lake, "archive").items(), reverse=True)[:DAYS]
        lines = ((day, f"{rows:,}") for day, rows in newest)
        return format_html('<ul class="pgqueue-times">{}</ul>', format_html_join("", "<li>{}: {}</li>", lines))


def rows_by_day(lake: Lake, table: str) -> dict[str, int]:
    """Return the number of rows of a table by day, as the last export reported it; {} for JSON of another shape."""
    found: Any = lake.rows.get(table) if isinstance(lake.rows, dict) else None
    return {day: rows for day, rows in found.items() if isinstance(rows, int)} if isinstance(found, dict) else {}
