"""Show the archive: a large table in partitions by day, read from its newest end."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import encoded, rendering, story
from django_pgqueue.admin.content import ContentAdmin
from django_pgqueue.admin.filters import AgeFilter, ChannelNameFilter, HandlerFilter, QueueFilter
from django_pgqueue.models import ArchivedMessage


class ArchivedFilter(AgeFilter):
    """Filter by the time of archiving, so that partitions of other days are not read."""

    title = _("archived")
    column = "archived_at"


class ArchivedHandlerFilter(HandlerFilter):
    table = "pgqueue_archived_message"


@admin.register(ArchivedMessage)
class ArchivedMessageAdmin(ContentAdmin):
    list_display = ["id", "outcome_shown", "what", "attempts_of", "waited", "ran", "archived"]
    list_filter = [ArchivedFilter, "outcome", QueueFilter, ChannelNameFilter, ArchivedHandlerFilter]
    search_fields = ["=id", "=channel", "=handler", "=dedupe_key"]
    search_help_text = _("An id, the whole of a channel's name, handler or dedupe key, or payload.customer=42.")
    exact_search = ("channel", "handler", "dedupe_key")
    big_columns = (*ContentAdmin.big_columns, "result")
    fieldsets = [
        (None, {"fields": ["id", "channel_shown", "handler", "outcome_shown"]}),
        (_("Story"), {"fields": ["story", "redrives"]}),
        (_("Content"), {"fields": ["payload_shown", "headers_shown", "body_shown", "result_shown", "state_shown"]}),
        (_("Delivery"), {"fields": ["attempts_of", "priority", "worker", "waited", "ran", "dedupe_key", "order_key"]}),
        (_("Times"), {"fields": ["created_at", "dequeue_at", "leased_at", "started_at", "archived_at"]}),
    ]

    @admin.display(description=_("outcome"))
    def outcome_shown(self, message: ArchivedMessage) -> str:
        return rendering.badge(message.get_outcome_display(), story.KINDS.get(message.outcome, "bad"))

    @admin.display(description=_("archived"), ordering="archived_at")
    def archived(self, message: ArchivedMessage) -> str:
        return rendering.at(message.archived_at)

    @admin.display(description=_("payload"))
    def payload_shown(self, message: ArchivedMessage) -> str:
        """Return the payload. An archived NULL means that none was kept; Python reads it as it reads the JSON null."""
        if type(message)._base_manager.using(message._state.db).filter(pk=message.pk, payload__isnull=True).exists():
            return str(_("not archived: its queue, channel, handler or call keeps only outcomes in the archive"))
        return super().payload_shown(message)

    @admin.display(description=_("result"))
    def result_shown(self, message: ArchivedMessage) -> str:
        return self.or_dash(encoded.value_html_or_none(message, message.result))

    @admin.display(description=_("waited"))
    def waited(self, message: ArchivedMessage) -> str:
        """Return the time from when it was due until its last handler started, or until its lease."""
        began_at = message.started_at or message.leased_at
        return self.or_dash(rendering.duration(began_at - message.dequeue_at) if began_at else None)

    @admin.display(description=_("ran"))
    def ran(self, message: ArchivedMessage) -> str:
        """Return the time from when its last handler started, or from its lease, until it was settled."""
        began_at = message.started_at or message.leased_at
        return self.or_dash(rendering.duration(message.archived_at - began_at) if began_at else None)
