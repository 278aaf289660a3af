"""Do the list's actions on the page of one object, too, and define those that several models have: pause and resume,
forgive, purge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import model_format_dict, model_ngettext, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, ngettext_lazy

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import BaseAdmin, Text, breadcrumbs
from django_pgqueue.admin.confirmation import DESTRUCTIVE, PauseForm, Question, ReasonForm, confirm, is_confirmed
from django_pgqueue.sql.call import call

PURGE_BATCH_MESSAGES = 10_000
"""The most messages of one transaction."""
MOST_PURGE_BATCHES = 20
"""The limit per object and request: producers may be faster than a purge, and a request must end."""


class ObjectActionsAdmin(BaseAdmin):
    """Show an object with a button for each action that its state and the user's permissions allow; the page of an
    object posts their names to itself."""

    def actions_on(self, item: Any) -> dict[str, Text]:
        """Return the actions that the object's state allows, with the texts of their buttons."""
        raise NotImplementedError

    def buttons(self, request: HttpRequest, item: Any) -> list[tuple[str, Text, bool]]:
        """Return names and texts of the buttons that the user may press, and whether they destroy something."""
        allowed = self.get_actions(request)
        return [(name, text, name in DESTRUCTIVE) for name, text in self.actions_on(item).items() if name in allowed]

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **more: Any
    ) -> HttpResponse:
        if (item := context.get("original")) is not None:
            context["object_actions"] = self.buttons(request, item)
        return super().render_change_form(request, context, *args, **more)

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **more: Any) -> HttpResponse:
        """Perform the action of a button, or else show or save the form."""
        if request.method == "POST" and "action" in request.POST:
            return self.act_on(request, object_id, request.POST["action"])
        return super().change_view(request, object_id, *args, **more)

    def act_on(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """Do an action on one object, and return to its page, or to the list if it is gone. Raises PermissionDenied."""
        if not self.has_view_or_change_permission(request) or name not in self.get_actions(request):
            raise PermissionDenied
        item = self.get_object(request, unquote(object_id))
        if item is None:
            self.message_user(request, _("The object no longer exists."), messages.WARNING)
            return self.to_list(request)
        if name not in self.actions_on(item):
            text = _("Nothing was done: the state has changed since the page was loaded.")
            self.message_user(request, text, messages.WARNING)
            return HttpResponseRedirect(request.get_full_path())
        chosen = self.get_queryset(request).filter(pk=item.pk)
        response: HttpResponse | None = getattr(self, name)(request, chosen)
        if isinstance(response, TemplateResponse):
            to_list = (self.list_address(), capfirst(str(self.opts.verbose_name_plural)))
            trail = breadcrumbs(to_list, (request.get_full_path(), str(item)))
            response.context_data = {**(response.context_data or {}), **trail}
        if response is not None:
            return response
        return HttpResponseRedirect(request.get_full_path()) if chosen.exists() else self.to_list(request)

    def to_list(self, request: HttpRequest) -> HttpResponse:
        """Redirect to the list, with the filters that the user came with."""
        return HttpResponseRedirect(self.with_filters(request, self.list_address()))

    def with_filters(self, request: HttpRequest, address: str | None) -> str:
        """Return the address of a page of this model with the filters of the list from which the user came."""
        filters: dict[str, Any] = {"preserved_filters": self.get_preserved_filters(request), "opts": self.opts}
        return str(add_preserved_filters(filters, address or ""))

    def list_address(self) -> str:
        """Return the URL of the list of this model, without filters."""
        page = f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"
        return reverse(page, current_app=self.admin_site.name)

    def apply_named(self, request: HttpRequest, objects: QuerySet[Any], act: Callable[[Any], Text], said: Any) -> None:
        """Call ``act`` on each object, as apply() does, and tell for how many it succeeded.

        ``said``: a text with the placeholders ``count`` and ``name``, the model's. A count of zero is a warning.
        """
        count = len(self.apply(request, objects, act, using=objects.db))
        text = said % {"count": count, "name": model_ngettext(self.opts, count)}
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)


def pause_of(form: ReasonForm, using: str) -> tuple[dict[str, Any], str]:
    """Return the arguments of a pause from its form, and the text of the history."""
    reason, minutes = form.cleaned_data["reason"], form.cleaned_data.get("minutes")
    until = call(using, "SELECT clock_timestamp()")[0][0] + timedelta(minutes=minutes) if minutes else None
    until_text = _("Paused until %s") % rendering.at(until) if until else _("Paused")
    return {"reason": reason, "until": until}, f"{until_text}: {reason}"


class PausableAdmin(ObjectActionsAdmin):
    """Show a model with ``paused_at``; the permission is ``pgqueue.pause_<model>``."""

    pause_consequence: Any
    """A sentence that says what a pause does."""
    pause_form: type[ReasonForm] = PauseForm

    verbs: Mapping[str, Callable[..., Any]]
    """The functions that pause, resume, set and purge an object."""

    def place(self, item: Any) -> dict[str, str]:
        """Return the arguments that name an object for a verb."""
        return {"name": item.name}

    def do(self, verb: str, item: Any, **given: Any) -> Any:
        """Call a verb on one object."""
        return self.verbs[verb](**self.place(item), **given)

    def actions_on(self, item: Any) -> dict[str, Text]:
        return {"resume": _("Resume")} if item.paused_at else {"pause": _("Pause")}

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(f"pgqueue.pause_{self.opts.model_name}")

    @admin.display(description=_("state"))
    def state(self, item: Any) -> str:
        """Return a badge: paused with its reason and end, or open."""
        if item.paused_at:
            return rendering.pause_badge(item.pause_reason, item.paused_until)
        return rendering.badge(_("open"), "good")

    @admin.action(description=_("Pause selected %(verbose_name_plural)s"), permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Ask for a reason and minutes, then pause the objects.

        Without minutes, the pause lasts until they are resumed. Returns the form, or None when done.
        """
        form = self.pause_form(request.POST if is_confirmed(request) else None)
        if not form.is_valid():
            title = _("Pause %(verbose_name_plural)s") % model_format_dict(self.opts)
            question = Question("pause", title, self.pause_consequence, _("Pause"))
            return confirm(self, request, queryset, question, form=form)
        given, text = pause_of(form, queryset.db)

        def act(item: Any) -> Text:
            self.do("pause", item, **given, using=queryset.db)
            return text

        said = ngettext_lazy("%(count)d %(name)s is paused.", "%(count)d %(name)s are paused.", "count")
        self.apply_named(request, queryset, act, said)
        return None

    @admin.action(description=_("Resume selected %(verbose_name_plural)s"), permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Resume the objects that are paused."""

        def act(item: Any) -> Text:
            self.do("resume", item, using=queryset.db)
            return _("Resumed.")

        said = ngettext_lazy("%(count)d %(name)s is resumed.", "%(count)d %(name)s are resumed.", "count")
        self.apply_named(request, queryset.exclude(paused_at=None), act, said)


class ForgivingAdmin(PausableAdmin):
    """Show a model with limits, one of which is a rate: messages that cost more than its burst leave it in debt."""

    limits: list[str] = []
    """The fields whose old and new values the history has, so that an operator can put the old ones back."""

    def actions_on(self, item: Any) -> dict[str, Text]:
        forgive = {} if item.release_interval is None else {"forgive": _("Forgive the debt")}
        return super().actions_on(item) | forgive

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        if add or not self.limits:
            return super().construct_change_message(request, form, formsets, add)
        return "; ".join(
            f"{name}: {self.limit_text(name, form.initial.get(name, form.fields[name].initial))} → "
            f"{self.limit_text(name, form.cleaned_data.get(name))}"
            if name in self.limits
            else _("%s changed") % name
            for name in form.changed_data
        )

    def limit_text(self, name: str, value: Any) -> str:
        """Return the value of a field as text for the history."""
        return str(_("none")) if value in (None, "") else ", ".join(str(value).splitlines())

    def rate_texts(self, item: Any) -> list[str]:
        """Return the rate and its burst, as far as they are set."""
        if item.release_interval is None:
            return []
        burst = [_("burst %d") % item.release_burst] if item.release_burst > 1 else []
        return [_("1 per %s") % rendering.duration(item.release_interval), *burst]

    @admin.action(description=_("Forgive the debts of selected %(verbose_name_plural)s"), permissions=["change"])
    def forgive(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """End the debts of the rates of the objects that have one."""

        def act(item: Any) -> Text:
            self.do("set", item, forgive=True, using=queryset.db)
            return _("The debt of its rate is forgiven.")

        said = ngettext_lazy("%(count)d %(name)s has no debt now.", "%(count)d %(name)s have no debt now.", "count")
        self.apply_named(request, queryset.exclude(release_interval=None), act, said)


class PurgeableAdmin(ForgivingAdmin):
    """Show a channel or a queue, whose waiting messages can be purged."""

    def waiting(self, queryset: QuerySet[Any]) -> list[tuple[str, str]]:
        """Return the first objects with the messages that would be purged. Each admin implements it."""
        raise NotImplementedError

    def has_purge_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(f"pgqueue.purge_{self.opts.model_name}")

    @admin.action(description=_("Purge selected %(verbose_name_plural)s"), permissions=["purge"])
    def purge(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Ask for confirmation, then archive the waiting messages as purged, in batches.

        One request purges at most MOST_PURGE_BATCHES batches of an object, and warns if more are left. Returns the
        confirmation page, or None when done.
        """
        if not is_confirmed(request):
            title, text = (
                _("Purge %(verbose_name_plural)s"),
                _(
                    "All ready and scheduled messages of these %(verbose_name_plural)s go to the archive as purged, "
                    "without being handled. Leased messages stay with their workers."
                ),
            )
            names = model_format_dict(self.opts)
            question = Question("purge", title % names, text % names, _("Purge"))
            return confirm(self, request, queryset, question, rows=self.waiting(queryset))
        removed: list[int] = []

        def act(item: Any) -> str:
            removed.append(self.do("purge", item, limit=PURGE_BATCH_MESSAGES, using=queryset.db))
            return _("Purged %d messages.") % removed[-1]

        more = False
        for item in list(queryset):
            for _batch in range(MOST_PURGE_BATCHES):
                if not self.apply(request, [item], act, using=queryset.db) or removed[-1] < PURGE_BATCH_MESSAGES:
                    break
            else:
                more = True
        total = sum(removed)
        self.show_count(request, ngettext("%d message is purged.", "%d messages are purged.", total), total)
        if more:
            self.message_user(request, _("More messages wait: purge again."), messages.WARNING)
        return None
