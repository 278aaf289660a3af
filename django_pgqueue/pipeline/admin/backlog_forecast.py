"""The admin of the newest forecast: the expected backlog of each channel."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import ReadOnlyAdmin
from django_pgqueue.admin.filters import OneOfFilter, QueueFilter
from django_pgqueue.pipeline.models import BacklogForecast

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class WhenFilter(OneOfFilter):
    title = _("hours")
    parameter_name = "when"
    default = "coming"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, StrOrPromise]]:
        return [("coming", _("this one and later")), ("all", _("all"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.chosen() == "all":
            return queryset
        return queryset.filter(hour_at__gt=timezone.now() - timedelta(hours=1))


@admin.register(BacklogForecast)
class BacklogForecastAdmin(ReadOnlyAdmin):
    list_display = ["hour_at", "queue", "channel_shown", "enqueued", "capacity", "backlog", "computed_at"]
    list_filter = [WhenFilter, QueueFilter]
    ordering = ["hour_at", "queue", "channel"]
    sortable_by = ["hour_at", "backlog"]
    fields = ["hour_at", "queue", "channel", "enqueued", "capacity", "backlog", "computed_at"]

    @admin.display(description=_("channel"))
    def channel_shown(self, forecast: BacklogForecast) -> str:
        return self.link_to_channel(forecast.queue, forecast.channel, forecast.channel)

    @admin.display(description=_("will come"))
    def enqueued(self, forecast: BacklogForecast) -> str:
        return rendering.number(round(forecast.expected_enqueued))

    @admin.display(description=_("can be done"))
    def capacity(self, forecast: BacklogForecast) -> str:
        return rendering.number(round(forecast.expected_capacity))

    @admin.display(description=_("wait at its end"), ordering="expected_backlog")
    def backlog(self, forecast: BacklogForecast) -> str:
        return rendering.number(round(forecast.expected_backlog))
