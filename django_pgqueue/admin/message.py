"""Show live messages, with actions on them. Only the SQL functions change the table."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _

from django_pgqueue import explain_message
from django_pgqueue.admin import content, explanation, message_actions, rendering, story
from django_pgqueue.admin.base import Text, needs
from django_pgqueue.admin.bulk_actions import BulkActionsAdmin, bulk
from django_pgqueue.admin.counts import limit_names, limits_of_message
from django_pgqueue.admin.edit_payload import edit_payload
from django_pgqueue.admin.filters import (
    ActiveChannelFilter,
    AgeFilter,
    ChannelQueueFilter,
    ErrorFilter,
    HandlerFilter,
    HolderFilter,
    WaitingFilter,
)
from django_pgqueue.admin.picture import badge_of, picture_of_message
from django_pgqueue.lifecycle.enqueue import FLOW
from django_pgqueue.models import Channel, Message, SharedLimit
from django_pgqueue.sql.call import alias, call

# Only the app of batches lets a message wait for others, so the table exists.
AWAITED = """
SELECT a.member_id, EXISTS (SELECT FROM pgqueue_dead_letter AS d WHERE d.id = a.member_id)
FROM pgqueue_batch_member AS a WHERE a.batch_id = -%s::bigint ORDER BY a.member_id LIMIT 20
"""
EVENT = f"SELECT s.name {message_actions.WAITING} LIMIT 1"
TIMES = ["created_at", "dequeue_at", "held_until", "leased_at", "lease_expires_at", "cancelled_at"]


@admin.register(Message)
class MessageAdmin(BulkActionsAdmin):
    list_display = ["id", "state_now", "what", "attempts_of", "due", "lease", "payload_listed", "priority"]
    list_filter = ["status", ChannelQueueFilter, ActiveChannelFilter, HandlerFilter, AgeFilter, HolderFilter]
    list_filter += [WaitingFilter, ErrorFilter]
    search_fields = ["=id", "=dedupe_key", "=order_key", "=handler"]
    search_help_text = _("An id, key, handler, channel or word of an error, or a part of it; or payload.customer=42.")
    exact_search = ("dedupe_key", "order_key", "handler")
    part_search = ("channel__name", *content.ERRORS)
    actions = ["retry_now", "reschedule", "edit", "cancel", "discard", "release_leases"]
    actions += ["notify_event"] if apps.is_installed(FLOW) else []
    fieldsets = [
        (None, {"fields": ["channel_shown", "handler", "state_now", "attempts_of", *content.CONTENT]}),
        (_("Why is it not running?"), {"fields": ["explanation"]}),
        (_("Story"), {"fields": ["story", "redrives"]}),
        (_("Delivery"), {"fields": ["priority", "worker", "dedupe_key", "cancel_reason"]}),
        (_("Limits and order"), {"fields": ["limits_shown", "waits_for_shown", "order_key", "cost"]}),
        (_("Retry policy"), {"fields": ["backoff", "backoff_factor", "backoff_longest"]}),
        (_("Times"), {"fields": [*TIMES]}),
    ]
    if apps.is_installed(FLOW):
        fieldsets.insert(3, (_("What hangs together"), {"fields": ["picture"]}))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        # With select_related, a message whose channel was deleted by hand would be missing from the list.
        return super().get_queryset(request).prefetch_related("channel")

    @admin.display(description=_("channel"))
    def channel_shown(self, message: Message) -> str:
        """Return a link to the tenant's page, or the id of a channel that is missing."""
        try:
            channel = message.channel
        except Channel.DoesNotExist:
            return _("missing, id %d") % message.channel_id
        return self.link(rendering.name(channel), "channel_tenant", channel.pk)

    @admin.display(description=_("due"), ordering="dequeue_at")
    def due(self, message: Message) -> str:
        return rendering.short(max(message.dequeue_at, message.held_until or message.dequeue_at))

    @admin.display(description=_("lease"), empty_value="-")
    def lease(self, message: Message) -> str | None:
        """Return the worker that holds the lease, with the end of the lease; None if none does."""
        if message.worker is None or message.lease_expires_at is None:
            return None
        until = format_html(_("until %s") % "{}", rendering.short(message.lease_expires_at))
        return rendering.line(self.link(message.worker, "worker_change", message.worker), until)

    @admin.display(description=_("limits"))
    def limits_shown(self, message: Message) -> str:
        """Return links to the message's own limits and to those of its handler."""
        found = limits_of_message(message.limits, message.handler, using=alias(None))
        links = ((self.link(rendering.name(name), "sharedlimit_change", pk),) for pk, name in found)
        return self.or_dash(format_html_join(", ", "{}", links) or None)

    @admin.display(description=_("waits for"))
    def waits_for_shown(self, message: Message) -> str:
        """Return the limit, the message of its order key, or the other messages that the message waits for.

        A limit that is dropped has no name any more.
        """
        if message.waits_for == -1:
            first = first_of_key(message, using=alias(None))
            return self.link(_("message %d of its order key") % first, "message_change", first)
        if message.waits_for == -2:
            links = ((self.link_to_awaited(pk, is_dead),) for pk, is_dead in call(alias(None), AWAITED, [message.pk]))
            return self.or_dash(format_html_join(", ", "{}", links) or None)
        found = SharedLimit.objects.using(alias(None)).filter(pk=message.waits_for or 0).first()
        if found is None:
            return self.or_dash(None)
        name = limit_names([found.pk], using=alias(None))[found.pk]
        return self.link(rendering.name(name), "sharedlimit_change", found.pk)

    def link_to_awaited(self, pk: int, is_dead: bool) -> str:
        """Return a link to a message that another one waits for, or to its dead letter."""
        if is_dead:
            return self.link(_("dead letter %d") % pk, "deadletter_change", pk)
        return self.link(_("message %d") % pk, "message_change", pk)

    @admin.display(description=_("picture"))
    def picture(self, message: Any) -> str:
        """Return what hangs together with a message that has a batch, waits for others, or is waited for."""
        if message.flow is None and message.waits_for != -2:
            return self.or_dash(None)
        return self.or_dash(picture_of_message(message, link=message.link, using=alias(None)))

    @admin.display(description=_("explanation"))
    def explanation(self, message: Message) -> str:
        """Explain now why the message is not running, with a link to its channel."""
        reasons = explanation.reasons_html(explain_message(message.pk, using=alias(None)), self.link)
        return format_html("{}<p>{}: {}</p>", reasons, _("Its channel"), self.channel_shown(message))

    @admin.display(description=_("status"), ordering="status")
    def state_now(self, message: Message) -> str:
        """Return a badge with the status, and whether a leased message is to be cancelled."""
        if message.cancelled_at is not None:
            return rendering.badge(_("leased, to be cancelled"), "late")
        if message.waits_for is not None:
            return rendering.badge(*badge_of("message", str(message.status), message.waits_for))
        return rendering.badge(message.get_status_display(), story.KINDS.get(message.status, "bad"))

    def actions_on(self, item: Message) -> dict[str, Text]:
        """Return the actions that the state of the message allows."""
        actions: dict[str, Text] = {}
        held = item.status == Message.Status.READY and item.held_until is not None
        if (item.status == Message.Status.SCHEDULED and item.waits_for is None) or held:
            actions["retry_now"] = _("Retry now")
        if item.status == Message.Status.LEASED:
            actions["release_leases"] = _("Release the lease")
        else:
            actions |= {"reschedule": _("Reschedule"), "edit": _("Edit the payload")}
        if item.status == Message.Status.SCHEDULED and apps.is_installed(FLOW):
            for (event,) in call(item._state.db, EVENT, [[item.pk]]):
                actions["notify_event"] = _('Notify "%s"') % event
        if item.cancelled_at is None:
            actions["cancel"] = _("Cancel")
        return actions | {"discard": _("Discard")}

    has_cancel_permission = needs("cancel_message")
    has_reschedule_permission = needs("reschedule_message")
    has_discard_permission = needs("discard_message")
    has_release_permission = needs("release_message")
    has_edit_permission = needs("edit_message")

    retry_now = bulk(message_actions.RETRY_NOW, _("Retry selected messages now"), "reschedule")
    reschedule = bulk(message_actions.RESCHEDULE, _("Reschedule selected messages"), "reschedule")
    cancel = bulk(message_actions.CANCEL, _("Cancel selected messages"), "cancel")
    discard = bulk(message_actions.DISCARD, _("Discard selected messages"), "discard")
    release_leases = bulk(
        message_actions.RELEASE, _("Release the leases of selected messages"), "release", status=Message.Status.LEASED
    )

    notify_event = bulk(message_actions.NOTIFY_EVENT, _("Notify the events of selected messages"), "reschedule")

    @admin.action(description=_("Edit the payload of the selected message"), permissions=["edit"])
    def edit(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return edit_payload(self, request, queryset, message_actions.EDIT)


def first_of_key(message: Message, *, using: str) -> int:
    """Return the id of the message whose turn it is among those of an order key, as pgqueue_first_of_key does."""
    found = Message.objects.using(using).filter(channel=message.channel_id, order_key=message.order_key)
    order = Coalesce("leased_at", "last_leased_at"), Coalesce("order_place", "id")
    return found.order_by(*order).values_list("pk", flat=True).first() or message.pk
