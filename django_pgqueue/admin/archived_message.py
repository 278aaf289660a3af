"""Show the archive: a large table in partitions by day, read from its newest end."""

from __future__ import annotations

from datetime import datetime

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import content, rendering, story
from django_pgqueue.admin.base import column
from django_pgqueue.admin.content import ContentAdmin
from django_pgqueue.admin.filters import AgeFilter, ChannelNameFilter, HandlerFilter, QueueFilter
from django_pgqueue.models import ArchivedMessage


class ArchivedFilter(AgeFilter):
    """Filter by the time of archiving, so that partitions of other days are not read."""

    title = _("archived")
    column = "archived_at"


@admin.register(ArchivedMessage)
class ArchivedMessageAdmin(ContentAdmin):
    list_display = ["id", "outcome_shown", "what", "attempts_of", "waited", "ran", "archived", "payload_listed"]
    list_filter = [ArchivedFilter, "outcome", QueueFilter, ChannelNameFilter, HandlerFilter]
    search_fields = ["=id", "=channel", "=handler", "=dedupe_key"]
    search_help_text = _("An id, key, handler, channel or word of an error, or a part of it; or payload.customer=42.")
    exact_search = ("channel", "handler", "dedupe_key")
    part_search = ("order_key", *content.ERRORS)
    big_columns = (*ContentAdmin.big_columns, "result")
    fieldsets = [
        (None, {"fields": ["channel_shown", "handler", "outcome_shown", "result_shown", *content.CONTENT]}),
        (_("Story"), {"fields": ["story", "redrives"]}),
        (_("Delivery"), {"fields": ["attempts_of", "priority", "worker", "waited", "ran", "dedupe_key", "order_key"]}),
        (_("Times"), {"fields": ["created_at", "dequeue_at", "leased_at", "started_at", "archived_at"]}),
    ]

    outcome_shown = column(
        _("outcome"), lambda item: rendering.badge(item.get_outcome_display(), story.KINDS.get(item.outcome, "bad"))
    )
    archived = column(_("archived"), lambda item: rendering.short(item.archived_at), ordering="archived_at")
    result_shown = column(_("result"), lambda item: content.value_html_or_none(item, item.result))
    waited = column(_("waited"), lambda item: lasted(item.dequeue_at, began(item)))
    ran = column(_("ran"), lambda item: lasted(began(item), item.archived_at))

    @admin.display(description=_("payload"))
    def payload_shown(self, message: ArchivedMessage) -> str:
        """Return the payload. An archived NULL means that none was kept; Python reads it as it reads the JSON null."""
        if type(message)._base_manager.using(message._state.db).filter(pk=message.pk, payload__isnull=True).exists():
            return str(_("not archived: its queue, channel, handler or call keeps only outcomes in the archive"))
        return super().payload_shown(message)


def began(message: ArchivedMessage) -> datetime | None:
    """Return when its last handler started, or else its lease."""
    return message.started_at or message.leased_at


def lasted(since: datetime | None, until: datetime | None) -> str | None:
    """Return the time between the two, or None if it has none of them."""
    return rendering.duration(until - since) if since and until else None
