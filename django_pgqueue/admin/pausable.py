"""Define the actions "pause" and "resume", the same for channels, queues and workers."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.utils import model_format_dict, model_ngettext
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue.admin import rendering
from django_pgqueue.admin.confirmation import PauseForm, ReasonForm, confirm, is_confirmed
from django_pgqueue.admin.object_actions import ObjectActionsAdmin
from django_pgqueue.sql.call import call

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

CLOCK = "SELECT clock_timestamp()"


class PausableAdmin(ObjectActionsAdmin):
    """Show a model with ``paused_at``; the permission is ``pgqueue.pause_<model>``."""

    pause_consequence: Any
    """A sentence that says what a pause does."""

    pause_form: type[ReasonForm] = PauseForm

    def pause_one(self, item: Any, reason: str, *, until: datetime | None, using: str) -> None:
        """Pause one object. ``until`` None means until it is resumed. Each admin implements it."""
        raise NotImplementedError

    def resume_one(self, item: Any, *, using: str) -> None:
        """Resume one object. Each admin implements it."""
        raise NotImplementedError

    def actions_on(self, item: Any) -> dict[str, StrOrPromise]:
        return {"resume": _("Resume")} if item.paused_at else {"pause": _("Pause")}

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(f"pgqueue.pause_{self.opts.model_name}")

    @admin.action(description=_("Pause selected %(verbose_name_plural)s"), permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Ask for a reason and minutes, then pause the objects.

        Without minutes, the pause lasts until they are resumed. Returns the form, or None when done.
        """
        form = self.pause_form(request.POST if is_confirmed(request) else None)
        if not form.is_valid():
            return confirm(
                self,
                request,
                queryset,
                action="pause",
                title=_("Pause %(verbose_name_plural)s") % model_format_dict(self.opts),
                consequence=self.pause_consequence,
                button=_("Pause"),
                form=form,
            )
        reason, minutes = form.cleaned_data["reason"], form.cleaned_data.get("minutes")
        until = call(queryset.db, CLOCK)[0][0] + timedelta(minutes=minutes) if minutes else None

        def act(item: Any) -> StrOrPromise:
            self.pause_one(item, reason, until=until, using=queryset.db)
            if until is None:
                return str(_("Paused: %s") % reason)
            return str(_("Paused until %(until)s: %(reason)s") % {"until": rendering.at(until), "reason": reason})

        count = len(self.apply(request, queryset, act, using=queryset.db))
        text = ngettext("%(count)d %(name)s is paused.", "%(count)d %(name)s are paused.", count)
        self.show_named_count(request, text, count)
        return None

    @admin.action(description=_("Resume selected %(verbose_name_plural)s"), permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Resume the objects that are paused."""

        def act(item: Any) -> StrOrPromise:
            self.resume_one(item, using=queryset.db)
            return _("Resumed.")

        count = len(self.apply(request, queryset.exclude(paused_at=None), act, using=queryset.db))
        text = ngettext("%(count)d %(name)s is resumed.", "%(count)d %(name)s are resumed.", count)
        self.show_named_count(request, text, count)

    def show_named_count(self, request: HttpRequest, text: str, count: int) -> None:
        """Show a message with the placeholders ``count`` and ``name``, the model's. A count of zero is a warning."""
        named = text % {"count": count, "name": model_ngettext(self.opts, count)}
        self.message_user(request, named, messages.SUCCESS if count else messages.WARNING)
