"""Show shared limits: their settings are edited, actions pause and resume them, and open and close breakers."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from django_pgqueue import (
    breaker_close,
    breaker_open,
    handler_pause,
    handler_resume,
    limit_drop,
    limit_pause,
    limit_resume,
    limit_set,
)
from django_pgqueue import limits as declarations
from django_pgqueue.admin import rendering
from django_pgqueue.admin.actions import ForgivingAdmin, pause_of
from django_pgqueue.admin.base import Text, column
from django_pgqueue.admin.confirmation import PauseForm
from django_pgqueue.admin.counts import LimitUsage, handlers_of_limit, limit_names, limit_usage
from django_pgqueue.admin.filters import LimitOfFilter, PausedFilter
from django_pgqueue.admin.forms import SharedLimitForm
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.lifecycle.breakers import BreakerState, breakers
from django_pgqueue.models import Channel, SharedLimit
from django_pgqueue.sql.call import alias


@admin.register(SharedLimit)
class SharedLimitAdmin(ForgivingAdmin):
    form = SharedLimitForm
    list_display = ["name_shown", "state", "places", "cost", "tokens", "waiting", "rate"]
    list_filter = [PausedFilter, LimitOfFilter]
    list_per_page = 50
    search_fields = ["name"]
    sortable_by = ["name_shown"]
    actions = ["pause", "resume", "open_breaker", "close_breaker", "forgive"]
    verbs = {"pause": limit_pause, "resume": limit_resume, "set": limit_set}
    pause_consequence = _(
        "No more messages that have these limits are delivered until you resume them. Enqueue goes on, and other "
        "messages of the same channels are delivered."
    )
    handler_consequence = _(
        "No more messages of the handler %s are delivered, in any channel, until you resume it. Enqueue goes on, no "
        "attempt is counted, and messages of other handlers are delivered."
    )
    limits = ["max_concurrency", "max_cost", "release_interval", "release_burst", "per", "handlers"]
    breaker_now = ["state", "waiting", "opened_at", "closed_at", "openings", "handlers_shown", "created_at"]
    now = ["places", "cost", "tokens", "waiting", "paused_at", "paused_until", "pause_reason", "origin", "created_at"]

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.handler_view)
        return [path("handler/", view, name="pgqueue_sharedlimit_handler"), *super().get_urls()]

    def handler_view(self, request: HttpRequest) -> HttpResponse:
        """Ask whether to pause the handler that the address names, or to resume it if it is paused; then do so."""
        if not self.has_pause_permission(request) or not request.GET.get("handler"):
            raise PermissionDenied
        handler, using, asked = request.GET["handler"], alias(None), request.POST.get("action")
        limit = SharedLimit.objects.using(using).filter(name=declarations.HANDLER_PREFIX + handler.replace("\0", ""))
        form = PauseForm(request.POST if asked == "pause" else None)
        if asked == "resume" or (asked == "pause" and form.is_valid()):
            try:
                with transaction.atomic(using=using):
                    given, text = pause_of(form, using) if asked == "pause" else ({}, _("Resumed."))
                    (handler_pause if asked == "pause" else handler_resume)(handler, **given, using=using)
                    self.log(request, limit, text)
                self.message_user(request, _("Handler %(name)s: %(text)s") % {"name": handler, "text": text})
            except PgQueueError as error:
                self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(self.url("dashboard_changelist") or self.list_address())
        paused = limit.exclude(paused_at=None).exists()
        text = _("Messages of the handler %s are delivered again.") if paused else self.handler_consequence
        return self.page(
            request,
            "confirm_action",
            self.app_trail((self.list_address(), capfirst(str(self.opts.verbose_name_plural)))),
            title=_("Resume handler") if paused else _("Pause handler"),
            button=_("Resume") if paused else _("Pause"),
            consequence=str(text) % handler,
            form=None if paused else form,
            hidden=[("action", "resume" if paused else "pause")],
            back=request.get_full_path(),
        )

    def fill(self, rows: list[Any]) -> None:
        usage = limit_usage([limit.pk for limit in rows], using=alias(None))
        guarded = any(limit.breaker_failures is not None for limit in rows)
        found = {row.id: row for row in breakers(using=alias(None)) if row.is_open} if guarded else {}
        names = limit_names([limit.pk for limit in rows], using=alias(None))
        for limit in rows:
            limit.full_name = names.get(limit.pk, limit.name)
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
        if obj is not None and obj.is_of_channel:
            return [(None, {"fields": ["name_shown", "parent_shown", "places", "cost", "waiting", "created_at"]})]
        handlers = "handlers_shown" if self.is_fixed(request, obj) else "handlers"
        shown = [*self.limits[:-1], handlers]
        fieldsets = [(None, {"fields": ["name"]}), (_("Limits"), {"fields": shown})]
        if obj is None:
            return fieldsets
        now = ["channels_shown", *self.now] if obj.per == "channel" else self.now
        return [*fieldsets, (_("Now"), {"fields": now})]

    def get_readonly_fields(self, request: HttpRequest, obj: SharedLimit | None = None) -> list[str]:
        """Return the read-only fields. A worker that starts overwrites a declared limit, so an edit would not last."""
        if obj is None:
            return []
        if self.is_fixed(request, obj):
            return [name for _title, part in self.get_fieldsets(request, obj) for name in part["fields"]]
        return ["name", "channels_shown", *self.now]

    def is_fixed(self, request: HttpRequest, obj: SharedLimit | None) -> bool:
        """Return whether the settings cannot be edited: declared, of a breaker, or the user may only look."""
        return obj is not None and (
            obj.breaker_failures is not None
            or obj.is_of_channel
            or self.is_declared(obj)
            or not self.has_change_permission(request, obj)
        )

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
        given = {name: form.cleaned_data[name] for name in form.changed_data if name in self.limits}
        if "handlers" in given:
            given["handlers"] = given["handlers"].splitlines()
        obj.pk = limit_set(obj.name, **given, using=alias(None))

    def delete_model(self, request: HttpRequest, obj: SharedLimit) -> None:
        limit_drop(obj.name, using=alias(None))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[SharedLimit]) -> None:
        for limit in queryset:
            limit_drop(limit.name, using=alias(None))

    def has_delete_permission(self, request: HttpRequest, obj: SharedLimit | None = None) -> bool:
        """Refuse the row of a channel: a new one would start with a full rate."""
        return not (obj is not None and obj.is_of_channel) and super().has_delete_permission(request, obj)

    name_shown = column(_("name"), lambda limit: rendering.name(limit.full_name), ordering="name")

    @admin.display(description=_("limit"))
    def parent_shown(self, limit: SharedLimit) -> str:
        return self.link(_("its settings and its pause"), "sharedlimit_change", limit.parent_id)

    @admin.display(description=_("channels"))
    def channels_shown(self, limit: SharedLimit) -> str:
        return self.link(_("each has it for itself: list them"), "sharedlimit_changelist", of=limit.pk)

    @admin.display(description=_("state"))
    def state(self, limit: Any) -> str:
        return super().state(limit) if limit.breaker_failures is None else breaker_badge(limit.breaker)

    places = column(_("places taken"), lambda limit: used_places(limit))
    cost = column(
        _("cost in flight"), lambda limit: used(None if limit.per == "channel" else limit.usage.cost, limit.max_cost)
    )
    tokens = column(_("tokens"), lambda limit: used(limit.usage.tokens, limit.release_burst))

    @admin.display(description=_("waiting"))
    def waiting(self, limit: Any) -> str:
        return self.count_link(limit.usage.waiting, waits_for=limit.pk)

    @admin.display(description=_("rate"), empty_value="-")
    def rate(self, limit: SharedLimit) -> str | None:
        return ", ".join(self.rate_texts(limit)) or None

    handlers_shown = column(
        _("handlers"), lambda limit: ", ".join(handlers_of_limit(limit.pk, using=alias(None))) or None
    )

    @admin.display(description=_("made"))
    def origin(self, limit: SharedLimit) -> str:
        """Return whether code or a user has made the limit."""
        if self.is_declared(limit):
            return str(_("in code or in the setting LIMITS; a worker that starts writes it again"))
        return str(_("here, or by limit_set"))

    def actions_on(self, item: SharedLimit) -> dict[str, Text]:
        if item.is_of_channel:
            return {}
        if item.breaker_failures is None:
            return super().actions_on(item)
        if item.per == "channel" and item.channel_id is None:
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
        if opens:
            said = ngettext_lazy("%(count)d breaker is open.", "%(count)d breakers are open.", "count")
        else:
            said = ngettext_lazy("%(count)d breaker is closed.", "%(count)d breakers are closed.", "count")
        self.apply_named(request, chosen, act, said)

    @admin.display(description=_("breaker"))
    def breaker_shown(self, limit: SharedLimit) -> str:
        """Return when the breaker opens, and how long its pause is."""
        text = _("opens after %(failures)s failures in a row within %(within)s; one message tries after %(pause)s")
        shown = str(text) % {
            "failures": limit.breaker_failures,
            "within": rendering.duration(limit.breaker_within) if limit.breaker_within else "–",
            "pause": rendering.duration(limit.breaker_pause) if limit.breaker_pause else "–",
        }
        return f"{shown}; {_('one for each channel')}" if limit.per == "channel" else shown


def used_places(limit: Any) -> str | None:
    """Return the places that are taken; those of a limit for each channel are in the rows of the channels."""
    if limit.is_of_channel:
        return f"{limit.usage.places:,}"
    if limit.per == "channel" and limit.max_concurrency is not None:
        return rendering.number(_("%s for each channel") % f"{limit.max_concurrency:,}")
    return used(limit.usage.places, limit.max_concurrency)


def used(used: float | None, most: int | None) -> str | None:
    """Return how much is used of how much there is, such as "3 of 20"; None without a limit."""
    if used is None or most is None:
        return None
    return rendering.number(_("%(used)s of %(most)s") % {"used": str(int(used // 1)), "most": f"{most:,}"})


def breaker_badge(found: BreakerState | None) -> str:
    """Return the state of a breaker as a badge: closed (None), open until a time, or trying."""
    if found is None:
        return rendering.badge(_("closed"), "good")
    if found.state == "open" and found.until is not None:
        return rendering.badge(_("breaker open until %s") % rendering.at(found.until), "bad")
    return rendering.badge(_("breaker open, one message tries"), "late")
