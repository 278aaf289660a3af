"""Live messages, to look at. The functions alone settle them."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering
from django_pgqueue.admin.content import ContentAdmin
from django_pgqueue.admin.filters import ActiveChannelFilter, ChannelQueueFilter, MessageHandlerFilter
from django_pgqueue.models import Channel, Message

KINDS = {Message.Status.READY: "good", Message.Status.LEASED: "busy", Message.Status.SCHEDULED: "late"}


@admin.register(Message)
class MessageAdmin(ContentAdmin):
    list_display = [
        "id",
        "channel_link",
        "handler",
        "state_now",
        "attempts_of",
        "priority",
        "dequeue_at",
        "worker",
        "lease_expires_at",
    ]
    list_filter = ["status", ChannelQueueFilter, ActiveChannelFilter, MessageHandlerFilter]
    search_fields = ["=id", "=dedupe_key", "=handler"]
    search_help_text = _("An id, or else the whole of a dedupe key or handler.")
    exact_search = ("dedupe_key", "handler")
    fieldsets = [
        (None, {"fields": ["id", "channel_link", "handler", "state_now", "attempts_of"]}),
        (_("Content"), {"fields": ["payload_shown", "headers_shown", "body_shown", "state_shown"]}),
        (_("Failed attempts"), {"fields": ["errors_shown"]}),
        (_("Delivery"), {"fields": ["priority", "backoff", "worker", "dedupe_key", "redriven_from"]}),
        (_("Times"), {"fields": ["created_at", "dequeue_at", "leased_at", "lease_expires_at"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        # Not select_related: a message whose channel was deleted by hand would not be shown, when it most needs to be.
        return super().get_queryset(request).prefetch_related("channel")

    @admin.display(description=_("channel"))
    def channel_link(self, message: Message) -> str:
        try:
            channel = message.channel
        except Channel.DoesNotExist:
            return _("missing, id %d") % message.channel_id
        return self.link(rendering.name(channel), "channel_change", channel.pk)

    @admin.display(description=_("status"), ordering="status")
    def state_now(self, message: Message) -> str:
        return rendering.badge(message.get_status_display(), KINDS.get(message.status, "bad"))
