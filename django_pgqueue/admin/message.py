"""Live messages, to look at and to cancel. The functions alone settle them."""

from __future__ import annotations

from collections import Counter

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue.admin import rendering
from django_pgqueue.admin.confirmation import SHOWN, OptionalReasonForm, confirm, is_confirmed
from django_pgqueue.admin.content import ContentAdmin
from django_pgqueue.admin.filters import ActiveChannelFilter, ChannelQueueFilter, MessageHandlerFilter
from django_pgqueue.exceptions import MessageNotFound, PgQueueError
from django_pgqueue.lifecycle.cancel import cancel
from django_pgqueue.models import Channel, Message

BATCH = 1_000
MOST = 20_000
"""Cancelled in one request, which must end."""
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
    actions = ["cancel"]
    fieldsets = [
        (None, {"fields": ["id", "channel_link", "handler", "state_now", "attempts_of"]}),
        (_("Content"), {"fields": ["payload_shown", "headers_shown", "body_shown", "state_shown"]}),
        (_("Failed attempts"), {"fields": ["errors_shown"]}),
        (_("Delivery"), {"fields": ["priority", "worker", "dedupe_key", "redriven_from", "cancel_reason"]}),
        (_("Retry policy"), {"fields": ["backoff", "backoff_factor", "backoff_longest"]}),
        (_("Times"), {"fields": ["created_at", "dequeue_at", "leased_at", "lease_expires_at", "cancelled_at"]}),
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
        if message.cancelled_at is not None:
            return rendering.badge(_("leased, to be cancelled"), "late")
        return rendering.badge(message.get_status_display(), KINDS.get(message.status, "bad"))

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.cancel_message")

    @admin.action(description=_("Cancel selected messages"), permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        form = OptionalReasonForm(request.POST if is_confirmed(request) else None)
        if not form.is_valid():
            shown = queryset.only("id", "handler")[:SHOWN]
            return confirm(
                self,
                request,
                queryset,
                action="cancel",
                title=_("Cancel messages"),
                consequence=_(
                    "What waits goes to the archive as cancelled. The workers of what is leased are asked to stop: "
                    "they may complete it all the same, but it is not delivered again."
                ),
                button=_("Cancel these messages"),
                rows=[(str(message), "") for message in shown],
                form=form,
            )
        # Which ones is decided now: what comes from here on was not confirmed.
        chosen = list(queryset.order_by("id").values_list("id", flat=True)[: MOST + 1])
        became: Counter[str] = Counter()
        for start in range(0, min(len(chosen), MOST), BATCH):
            ids = chosen[start : min(start + BATCH, MOST)]
            became += self.cancel_batch(request, ids, form.cleaned_data["reason"], using=queryset.db)
        self.tell_what_became(request, became)
        if len(chosen) > MOST:
            self.message_user(request, _("There are more: cancel again."), messages.WARNING)
        return None

    def cancel_batch(self, request: HttpRequest, ids: list[int], reason: str, *, using: str) -> Counter[str]:
        """Cancelled and logged, both or neither. What the database refuses is told."""
        found = Message.objects.using(using).only("id", "handler").in_bulk(ids)
        try:
            with transaction.atomic(using=using):
                became = cancel(ids, reason=reason, using=using)
                changed = [pk for pk, answer in became.items() if answer in ("cancelled", "requested") and pk in found]
                text = _("Cancelled: %s") % reason if reason else _("Cancelled.")
                self.log(request, [found[pk] for pk in changed], text)
        except MessageNotFound:
            return Counter(not_found=1)
        except PgQueueError as error:
            self.message_user(request, str(error), messages.ERROR)
            return Counter()
        return Counter(became.values())

    def tell_what_became(self, request: HttpRequest, became: Counter[str]) -> None:
        cancelled, requested = became["cancelled"], became["requested"]
        settled = became["settled"] + became["not_found"]
        if cancelled or not requested:
            self.tell(request, ngettext("%d message is cancelled.", "%d messages are cancelled.", cancelled), cancelled)
        if requested:
            text = ngettext(
                "%d message is leased: its worker is asked to stop.",
                "%d messages are leased: their workers are asked to stop.",
                requested,
            )
            self.tell(request, text, requested)
        if settled:
            text = ngettext("%d message was settled already.", "%d messages were settled already.", settled)
            self.message_user(request, text % settled, messages.WARNING)
