"""Show shared limits: their settings are edited, actions pause and resume them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_pgqueue import limits as declarations
from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import LeanChangeList
from django_pgqueue.admin.breaker import BreakerAdmin, breaker_badge, open_breakers
from django_pgqueue.admin.forgiving import ForgivingAdmin
from django_pgqueue.admin.limit_filters import PausedFilter
from django_pgqueue.admin.limit_form import SharedLimitForm
from django_pgqueue.admin.limit_usage import LimitUsage, handlers_of_limit, limit_usage
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.limit_drop import limit_drop
from django_pgqueue.lifecycle.limit_pause import limit_pause
from django_pgqueue.lifecycle.limit_resume import limit_resume
from django_pgqueue.lifecycle.limit_set import limit_set
from django_pgqueue.models import SharedLimit


class LimitChangeList(LeanChangeList):
    """List limits with what they have given out now."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        limits = list(self.result_list)
        usage = limit_usage([limit.pk for limit in limits], using=alias(None))
        found = open_breakers(limits, using=alias(None))
        for limit in limits:
            limit.usage = usage.get(limit.pk, LimitUsage(0, 0, None, 0))
            limit.breaker = found.get(limit.pk)
        self.result_list = limits


@admin.register(SharedLimit)
class SharedLimitAdmin(ForgivingAdmin, BreakerAdmin):
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

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[LeanChangeList]:
        return LimitChangeList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        limit: Any = super().get_object(request, object_id, from_field)
        if limit is not None:
            limit.usage = limit_usage([limit.pk], using=alias(None)).get(limit.pk, LimitUsage(0, 0, None, 0))
            limit.breaker = open_breakers([limit], using=alias(None)).get(limit.pk)
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

    @admin.display(description=_("name"), ordering="name")
    def name_shown(self, limit: SharedLimit) -> str:
        return rendering.name(limit.name)

    @admin.display(description=_("state"))
    def state(self, limit: Any) -> str:
        """Return a badge: open, or paused with its reason and its end; the state of a breaker."""
        if limit.breaker_failures is not None:
            return breaker_badge(limit.breaker)
        if limit.paused_at:
            return rendering.pause_badge(limit.pause_reason, limit.paused_until)
        return rendering.badge(_("open"), "good")

    @admin.display(description=_("places taken"))
    def places(self, limit: Any) -> str:
        """Return how many places leased messages hold, and how many there are."""
        if limit.max_concurrency is None:
            return str(self.get_empty_value_display())
        return rendering.number(_("%(used)s of %(most)s") % used_of_most(limit.usage.places, limit.max_concurrency))

    @admin.display(description=_("cost in flight"))
    def cost(self, limit: Any) -> str:
        """Return the sum of the costs of leased messages, and the most that is allowed."""
        if limit.max_cost is None:
            return str(self.get_empty_value_display())
        return rendering.number(_("%(used)s of %(most)s") % used_of_most(limit.usage.cost, limit.max_cost))

    @admin.display(description=_("tokens"))
    def tokens(self, limit: Any) -> str:
        """Return the tokens in the bucket, and how many it holds."""
        if limit.usage.tokens is None:
            return str(self.get_empty_value_display())
        return rendering.number(
            _("%(used)s of %(most)s") % used_of_most(int(limit.usage.tokens // 1), limit.release_burst)
        )

    @admin.display(description=_("waiting"))
    def waiting(self, limit: Any) -> str:
        """Return the number of messages that wait for the limit, with a link to them."""
        count = limit.usage.waiting
        if int(count) == 0:
            return format_html('<span class="pgqueue-number quiet">{}</span>', str(count))
        return rendering.number(self.link(str(count), "message_changelist", waits_for=limit.pk))

    @admin.display(description=_("rate"), empty_value="-")
    def rate(self, limit: SharedLimit) -> str | None:
        """Return the interval between two tokens, and the burst; None without a rate."""
        if limit.release_interval is None:
            return None
        text = _("1 per %s") % rendering.duration(limit.release_interval)
        return text + ", " + _("burst %d") % limit.release_burst if limit.release_burst > 1 else text

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


def used_of_most(used: int, most: int) -> dict[str, str]:
    """Return the two numbers of a text such as "3 of 20"."""
    return {"used": str(used), "most": f"{most:,}"}


def history_text(value: Any) -> str:
    """Return a setting as text for the history."""
    return str(_("none")) if value in (None, "") else ", ".join(str(value).splitlines())
