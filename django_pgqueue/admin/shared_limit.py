"""Show shared limits: their settings are edited, actions pause and resume them, and open and close breakers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue import limits as declarations
from django_pgqueue.admin import rendering
from django_pgqueue.admin.actions import ForgivingAdmin
from django_pgqueue.admin.base import Text
from django_pgqueue.admin.filters import PausedFilter
from django_pgqueue.admin.forms import SharedLimitForm
from django_pgqueue.admin.limit_usage import LimitUsage, handlers_of_limit, limit_usage
from django_pgqueue.lifecycle.breaker_close import breaker_close
from django_pgqueue.lifecycle.breaker_open import breaker_open
from django_pgqueue.lifecycle.breakers import BreakerState, breakers
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.limit_drop import limit_drop
from django_pgqueue.lifecycle.limit_pause import limit_pause
from django_pgqueue.lifecycle.limit_resume import limit_resume
from django_pgqueue.lifecycle.limit_set import limit_set
from django_pgqueue.models import Channel, SharedLimit


@admin.register(SharedLimit)
class SharedLimitAdmin(ForgivingAdmin):
    form = SharedLimitForm
    list_display = ["name_shown", "state", "places", "cost", "tokens", "waiting", "rate"]
    list_filter = [PausedFilter]
    list_per_page = 50
    search_fields = ["name"]
    sortable_by = ["name_shown"]
    actions = ["pause", "resume", "open_breaker", "close_breaker", "forgive"]
    pause_consequence = _(
        "No more messages that have these limits are delivered until you resume them. Enqueue goes on, and other "
        "messages of the same channels are delivered."
    )
    settings = ["max_concurrency", "max_cost", "release_interval", "release_burst", "handlers"]
    breaker_now = ["state", "waiting", "opened_at", "closed_at", "openings", "handlers_shown", "created_at"]
    now = ["places", "cost", "tokens", "waiting", "paused_at", "paused_until", "pause_reason", "origin", "created_at"]

    def fill(self, rows: list[Any]) -> None:
        usage = limit_usage([limit.pk for limit in rows], using=alias(None))
        guarded = any(limit.breaker_failures is not None for limit in rows)
        found = {row.id: row for row in breakers(using=alias(None)) if row.is_open} if guarded else {}
        for limit in rows:
            limit.usage = usage.get(limit.pk, LimitUsage(0, 0, None, 0))
            limit.breaker = found.get(limit.pk)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        limit = super().get_object(request, object_id, from_field)
        if limit is not None:
            self.fill([limit])
        return limit

    def get_fieldsets(self, request: HttpRequest, obj: SharedLimit | None = None) -> Any:
        if obj is not None and obj.breaker_failures is not None:
            return [(None, {"fields": ["name", "breaker_shown", *self.breaker_now]})]
        shown = [
            name if name != "handlers" or not self.is_fixed(request, obj) else "handlers_shown"
            for name in self.settings
        ]
        fieldsets = [(None, {"fields": ["name"]}), (_("Limits"), {"fields": shown})]
        return fieldsets if obj is None else [*fieldsets, (_("Now"), {"fields": self.now})]

    def get_readonly_fields(self, request: HttpRequest, obj: SharedLimit | None = None) -> list[str]:
        """Return the read-only fields. A worker that starts overwrites a declared limit, so an edit would not last."""
        if obj is None:
            return []
        if obj.breaker_failures is not None:
            return ["name", "breaker_shown", *self.breaker_now]
        fixed = [*self.settings[:-1], "handlers_shown"] if self.is_fixed(request, obj) else []
        return ["name", *fixed, *self.now]

    def is_fixed(self, request: HttpRequest, obj: SharedLimit | None) -> bool:
        """Return whether the settings cannot be edited: they are declared, or the user may only look."""
        if obj is not None and obj.breaker_failures is not None:
            return True
        return obj is not None and (self.is_declared(obj) or not self.has_change_permission(request, obj))

    def is_declared(self, limit: SharedLimit) -> bool:
        """Return whether code or the setting LIMITS declares the limit."""
        return limit.name in declarations.collect_declared_limits()[0]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if self.is_fixed(request, obj):
            # Without its own field: the page shows the names as text.
            return super().get_form(request, obj, change, **{**kwargs, "form": forms.ModelForm})
        form = super().get_form(request, obj, change, **kwargs)
        if obj is not None:
            form.base_fields["handlers"].initial = "\n".join(handlers_of_limit(obj.pk, using=alias(None)))
        return form

    def save_model(self, request: HttpRequest, obj: SharedLimit, form: forms.ModelForm, change: bool) -> None:
        """Set what was edited, because the limit may have been paused since the form was opened."""
        given = {name: form.cleaned_data[name] for name in form.changed_data if name in self.settings}
        if "handlers" in given:
            given["handlers"] = given["handlers"].splitlines()
        obj.pk = limit_set(obj.name, **given, using=alias(None))

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        """Return settings with their old and new values, so that an operator can put the old ones back."""
        if add:
            return super().construct_change_message(request, form, formsets, add)
        return "; ".join(
            f"{name}: {history_text(form.initial.get(name, form.fields[name].initial))} → "
            f"{history_text(form.cleaned_data.get(name))}"
            for name in form.changed_data
        )

    def delete_model(self, request: HttpRequest, obj: SharedLimit) -> None:
        limit_drop(obj.name, using=alias(None))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[SharedLimit]) -> None:
        for limit in queryset:
            limit_drop(limit.name, using=alias(None))

    @admin.display(description=_("state"))
    def state(self, limit: Any) -> str:
        return super().state(limit) if limit.breaker_failures is None else breaker_badge(limit.breaker)

    @admin.display(description=_("places taken"))
    def places(self, limit: Any) -> str:
        return self.used(limit.usage.places, limit.max_concurrency)

    @admin.display(description=_("cost in flight"))
    def cost(self, limit: Any) -> str:
        return self.used(limit.usage.cost, limit.max_cost)

    @admin.display(description=_("tokens"))
    def tokens(self, limit: Any) -> str:
        tokens = limit.usage.tokens
        return self.used(None if tokens is None else int(tokens // 1), limit.release_burst)

    def used(self, used: int | None, most: int | None) -> str:
        """Return how much is used of how much there is, such as "3 of 20"."""
        if used is None or most is None:
            return str(self.get_empty_value_display())
        return rendering.number(_("%(used)s of %(most)s") % {"used": str(used), "most": f"{most:,}"})

    @admin.display(description=_("waiting"))
    def waiting(self, limit: Any) -> str:
        """Return the number of messages that wait for the limit, with a link to them."""
        count = limit.usage.waiting
        if int(count) == 0:
            return format_html('<span class="pgqueue-number quiet">{}</span>', str(count))
        return rendering.number(self.link(str(count), "message_changelist", waits_for=limit.pk))

    @admin.display(description=_("rate"), empty_value="-")
    def rate(self, limit: SharedLimit) -> str | None:
        return ", ".join(self.rate_texts(limit)) or None

    @admin.display(description=_("handlers"))
    def handlers_shown(self, limit: SharedLimit) -> str:
        return ", ".join(handlers_of_limit(limit.pk, using=alias(None))) or str(self.get_empty_value_display())

    @admin.display(description=_("made"))
    def origin(self, limit: SharedLimit) -> str:
        """Return whether code or a user has made the limit."""
        if self.is_declared(limit):
            return str(_("in code or in the setting LIMITS; a worker that starts writes it again"))
        return str(_("here, or by limit_set"))

    def pause_one(self, item: SharedLimit, reason: str, *, until: datetime | None, using: str) -> None:
        limit_pause(item.name, reason=reason, until=until, using=using)

    def resume_one(self, item: SharedLimit, *, using: str) -> None:
        limit_resume(item.name, using=using)

    def forgive_one(self, item: SharedLimit, *, using: str) -> None:
        limit_set(item.name, forgive=True, using=using)

    def actions_on(self, item: SharedLimit) -> dict[str, Text]:
        if item.breaker_failures is None:
            return super().actions_on(item)
        if item.breaker_per == "channel" and item.channel_id is None:
            return {}
        return {"open_breaker": _("Open the breaker"), "close_breaker": _("Close the breaker")}

    @admin.action(description=_("Open selected breakers"), permissions=["pause"])
    def open_breaker(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Open breakers for their pause, after which one message tries."""
        self.turn(request, queryset, opens=True)

    @admin.action(description=_("Close selected breakers"), permissions=["pause"])
    def close_breaker(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Close breakers, so that their messages go on."""
        self.turn(request, queryset, opens=False)

    def turn(self, request: HttpRequest, queryset: QuerySet[Any], *, opens: bool) -> None:
        """Open or close the breakers among the chosen limits."""
        verb = breaker_open if opens else breaker_close

        def act(item: SharedLimit) -> Text:
            channel = Channel.objects.using(queryset.db).filter(pk=item.channel_id or 0).first()
            place = {} if channel is None else {"channel": channel.name, "queue": channel.queue}
            verb(str(item.breaker_handler), **place, using=queryset.db)
            return _("Opened.") if opens else _("Closed.")

        chosen = queryset.exclude(breaker_failures=None)
        count = len(self.apply(request, chosen, act, using=queryset.db))
        if opens:
            text = ngettext("%(count)d breaker is open.", "%(count)d breakers are open.", count)
        else:
            text = ngettext("%(count)d breaker is closed.", "%(count)d breakers are closed.", count)
        self.show_named_count(request, text, count)

    @admin.display(description=_("breaker"))
    def breaker_shown(self, limit: SharedLimit) -> str:
        """Return when the breaker opens, and how long its pause is."""
        text = _("opens after %(failures)s failures in a row within %(within)s; one message tries after %(pause)s")
        shown = str(text) % {
            "failures": limit.breaker_failures,
            "within": rendering.duration(limit.breaker_within) if limit.breaker_within else "–",
            "pause": rendering.duration(limit.breaker_pause) if limit.breaker_pause else "–",
        }
        return f"{shown}; {_('one for each channel')}" if limit.breaker_per == "channel" else shown


def history_text(value: Any) -> str:
    """Return a setting as text for the history."""
    return str(_("none")) if value in (None, "") else ", ".join(str(value).splitlines())


def breaker_badge(found: BreakerState | None) -> str:
    """Return the state of a breaker as a badge: closed (None), open until a time, or trying."""
    if found is None:
        return rendering.badge(_("closed"), "good")
    if found.state == "open" and found.until is not None:
        return rendering.badge(_("breaker open until %s") % rendering.at(found.until), "bad")
    return rendering.badge(_("breaker open, one message tries"), "late")
