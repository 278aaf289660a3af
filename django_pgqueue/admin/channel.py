"""Show channels: limits are edited, actions do the rest."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue import channel_pause, channel_purge, channel_release, channel_resume, channel_set, explain_channel
from django_pgqueue.admin import channel_erase, explanation, rendering
from django_pgqueue.admin.actions import PurgeableAdmin
from django_pgqueue.admin.base import LeanChangeList, Text, needs, never
from django_pgqueue.admin.confirmation import SHOWN_ROWS, Question, confirm, is_confirmed
from django_pgqueue.admin.counts import LIVE_TEXT, STATES, WAITING_TEXT, live_counts
from django_pgqueue.admin.filters import ChannelStateFilter, QueueFilter
from django_pgqueue.admin.forms import ChannelForm
from django_pgqueue.admin.tenant.page import TenantAdmin
from django_pgqueue.models import Channel
from django_pgqueue.sql.call import alias

RELEASE = Question(
    "release",
    _("Release channels"),
    _(
        "These channels take no new messages: enqueue fails for them. Messages that wait are delivered without their "
        "limits, then the channels are removed."
    ),
    _("Release"),
)


def linked_count(description: Text, state: str) -> Any:
    """Return a column with the live messages of a channel in a state, as a link to them."""

    @admin.display(description=description)
    def shown(self: ChannelAdmin, channel: Any) -> str:
        return self.count_link(getattr(channel.live, state), channel=channel.pk, **STATES[state])

    return shown


class ChannelChangeList(LeanChangeList):
    def url_for_result(self, result: Model) -> str:
        """Return the page with the figures of the channel; its form is one click further."""
        return str(cast(TenantAdmin, self.model_admin).url("channel_tenant", result.pk))


@admin.register(Channel)
class ChannelAdmin(PurgeableAdmin, TenantAdmin):
    form = ChannelForm
    list_display = ["name_shown", "state", "ready", "leased", "waits", "limits_shown"]
    list_filter = [QueueFilter, ChannelStateFilter]
    list_per_page = 50
    search_fields = ["name"]
    sortable_by = ["name_shown"]
    actions = ["pause", "resume", "purge", "release", "erase", "forgive"]
    pause_consequence = _("No more messages of these channels are delivered until you resume them. Enqueue goes on.")
    verbs = {"pause": channel_pause, "resume": channel_resume, "set": channel_set, "purge": channel_purge}
    limits = ["max_concurrency", "max_size", "full_policy", "release_interval", "release_burst", "weight"]
    limits += ["ordered", "on_dead", "archive"]
    now = ["live_messages", "settled_messages", "paused_at", "paused_until", "pause_reason"]
    now += ["released_at", "created_at"]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[LeanChangeList]:
        return ChannelChangeList

    def fill(self, rows: list[Any]) -> None:
        counts = live_counts([channel.pk for channel in rows], using=alias(None))
        for channel in rows:
            channel.live = counts[channel.pk]

    def get_fieldsets(self, request: HttpRequest, obj: Channel | None = None) -> Any:
        fieldsets = [(None, {"fields": ["queue", "name"]}), (_("Limits"), {"fields": self.limits})]
        fieldsets.append((_("Context"), {"fields": ["context"]}))
        if obj is not None:
            fieldsets.insert(1, (_("Why is it not running?"), {"fields": ["explanation"]}))
            fieldsets.append((_("Now"), {"fields": self.now}))
        return fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Channel | None = None) -> list[str]:
        if obj is None:
            return []
        return ["queue", "name", "explanation", *self.now]

    def save_model(self, request: HttpRequest, obj: Channel, form: forms.ModelForm, change: bool) -> None:
        # Save only the edited fields, because the channel may have been paused since the form was opened.
        edited = set(form.changed_data) | ({"max_concurrency"} if "ordered" in form.changed_data else set())
        obj.save(using=alias(None), update_fields=edited if change else None)

    def limit_text(self, name: str, value: Any) -> str:
        return str(_("the queue's setting")) if name == "archive" and not value else super().limit_text(name, value)

    # A channel is released, drains, and is then removed by pgqueue_prune.
    has_delete_permission = never
    has_erase_permission = needs("erase_channel")

    @admin.display(description=_("name, queue"), ordering="name")
    def name_shown(self, channel: Channel) -> str:
        return format_html('{} <span class="quiet">{}</span>', rendering.name(channel.name), channel.queue)

    @admin.display(description=_("state"))
    def state(self, channel: Channel) -> str:
        return rendering.badge(_("released"), "late") if channel.released_at else super().state(channel)

    ready = linked_count(_("ready"), "ready")
    leased = linked_count(_("leased"), "leased")

    @admin.display(description=_("waiting"), empty_value="-")
    def waits(self, channel: Any) -> str | None:
        """Return how many messages wait for what, each as a link, in lines; None if none waits."""
        texts = {
            "scheduled": _("for its time"),
            "waiting_for_limit": _("for a limit"),
            "waiting_for_order_key": _("for its order key"),
            "blocked": _("for others"),
        }
        lines = [
            (self.link(str(number), "message_changelist", channel=channel.pk, **STATES[name]), text)
            for name, text in texts.items()
            if (number := getattr(channel.live, name)) > 0
        ]
        return format_html_join(mark_safe("<br>"), "{} {}", lines) or None

    @admin.display(description=_("limits"), empty_value="-")
    def limits_shown(self, channel: Channel) -> str | None:
        """Return the limits that are set, with commas between them; None if none is."""
        limits = []
        if channel.max_concurrency is not None:
            limits.append(_("%d at once") % channel.max_concurrency)
        if channel.max_size is not None:
            limits.append(_("holds %d") % channel.max_size)
        limits += self.rate_texts(channel)
        if channel.ordered:
            pauses = channel.on_dead == Channel.OnDead.PAUSE
            limits.append(str(_("in order, pauses at a dead letter") if pauses else _("in order")))
        if channel.weight > 1:
            limits.append(_("weight %d") % channel.weight)
        if channel.archive:
            limits.append(_("archives: %s") % channel.get_archive_display())
        return format_html('<span class="pgqueue-limits">{}</span>', ", ".join(limits)) if limits else None

    @admin.display(description=_("live messages"))
    def live_messages(self, channel: Channel) -> str:
        """Count the live messages by status, now, and link them to their list."""
        counts = live_counts([channel.pk], using=alias(None))[channel.pk]
        return self.link(LIVE_TEXT % asdict(counts), "message_changelist", channel=channel.pk)

    @admin.display(description=_("settled messages"))
    def settled_messages(self, channel: Channel) -> str:
        """Return links to the archive and the dead letters of this channel."""
        chosen = {"queue": channel.queue, "channel": channel.name}
        archive = self.link(_("archive"), "archivedmessage_changelist", **chosen)
        return format_html("{}, {}", archive, self.link(_("dead letters"), "deadletter_changelist", **chosen))

    @admin.display(description=_("explanation"))
    def explanation(self, channel: Channel) -> str:
        return explanation.reasons_html(
            explain_channel(channel=channel.name, queue=channel.queue, using=alias(None)), self.link
        )

    def place(self, item: Channel) -> dict[str, str]:
        return {"channel": item.name, "queue": item.queue}

    def actions_on(self, item: Channel) -> dict[str, Text]:
        release = {} if item.released_at else {"release": _("Release")}
        return super().actions_on(item) | {"purge": _("Purge")} | release | {"erase": _("Erase")}

    def waiting(self, queryset: QuerySet[Channel]) -> list[tuple[str, str]]:
        shown = list(queryset[:SHOWN_ROWS])
        counts = live_counts([channel.pk for channel in shown], using=queryset.db)
        return [(str(channel), WAITING_TEXT % asdict(counts[channel.pk])) for channel in shown]

    @admin.action(description=_("Release selected channels"), permissions=["change"])
    def release(self, request: HttpRequest, queryset: QuerySet[Channel]) -> HttpResponse | None:
        """Ask for confirmation, then release the channels that are not released yet."""
        if not is_confirmed(request):
            return confirm(self, request, queryset, RELEASE)

        def act(channel: Channel) -> str:
            channel_release(channel=channel.name, queue=channel.queue, using=queryset.db)
            return str(_("Released."))

        done = self.apply(request, queryset.filter(released_at=None), act, using=queryset.db)
        self.show_count(request, ngettext("%d channel is released.", "%d channels are released.", len(done)), len(done))
        return None

    @admin.action(description=_("Erase the selected channel"), permissions=["erase"])
    def erase(self, request: HttpRequest, queryset: QuerySet[Channel]) -> HttpResponse | None:
        return channel_erase.erase_channels(self, request, queryset)
