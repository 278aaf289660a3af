"""The archive, to look at: a large table in partitions by day, read from its newest end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering
from django_pgqueue.admin.content import ContentAdmin
from django_pgqueue.admin.filters import QueueFilter
from django_pgqueue.models import ArchivedMessage

KINDS = {
    ArchivedMessage.Outcome.COMPLETED: "good",
    ArchivedMessage.Outcome.POPPED: "busy",
    ArchivedMessage.Outcome.PURGED: "late",
}


class ArchivedSinceFilter(admin.SimpleListFilter):
    """Within a time: the partitions before it are not read."""

    title = _("archived")
    parameter_name = "since"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [("1", _("last hour")), ("24", _("last day")), ("168", _("last 7 days"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        hours = self.value()
        if hours not in {value for value, _title in self.lookup_choices}:
            return queryset
        return queryset.filter(archived_at__gte=timezone.now() - timedelta(hours=int(hours)))


@admin.register(ArchivedMessage)
class ArchivedMessageAdmin(ContentAdmin):
    list_display = ["id", "channel_shown", "handler", "outcome_shown", "attempts_of", "waited", "ran", "archived_at"]
    list_filter = [ArchivedSinceFilter, "outcome", QueueFilter]
    search_fields = ["=id", "=channel", "=handler", "=dedupe_key"]
    search_help_text = _("An id, or else the whole of a channel's name, handler or dedupe key.")
    exact_search = ("channel", "handler", "dedupe_key")
    big_columns = (*ContentAdmin.big_columns, "result")
    fieldsets = [
        (None, {"fields": ["id", "queue", "channel", "handler", "outcome_shown"]}),
        (_("Content"), {"fields": ["payload_shown", "headers_shown", "body_shown", "result_shown", "state_shown"]}),
        (_("Failed attempts"), {"fields": ["attempts_of", "errors_shown"]}),
        (_("Delivery"), {"fields": ["priority", "worker", "waited", "ran", "dedupe_key", "redriven_from"]}),
        (_("Times"), {"fields": ["created_at", "dequeue_at", "leased_at", "archived_at"]}),
    ]

    @admin.display(description=_("outcome"))
    def outcome_shown(self, message: ArchivedMessage) -> str:
        return rendering.badge(message.get_outcome_display(), KINDS.get(message.outcome, "bad"))

    @admin.display(description=_("result"))
    def result_shown(self, message: ArchivedMessage) -> str:
        return self.or_dash(rendering.pretty_json_or_none(message.result))

    @admin.display(description=_("waited"))
    def waited(self, message: ArchivedMessage) -> str:
        """From the time it was due until its last delivery."""
        return self.or_dash(rendering.duration(message.leased_at - message.dequeue_at) if message.leased_at else None)

    @admin.display(description=_("ran"))
    def ran(self, message: ArchivedMessage) -> str:
        return self.or_dash(rendering.duration(message.archived_at - message.leased_at) if message.leased_at else None)
