"""The actions "pause" and "resume", the same for channels, queues and workers."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import model_format_dict, model_ngettext
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue.admin.base import BaseAdmin
from django_pgqueue.admin.confirmation import ReasonForm, confirm, is_confirmed


class PausableAdmin(BaseAdmin):
    """For models with ``paused_at``; the permission is ``pgqueue.pause_<model>``."""

    pause_consequence: Any
    """What a pause means for them, in words."""

    def pause_one(self, item: Any, reason: str, *, using: str) -> None:
        raise NotImplementedError

    def resume_one(self, item: Any, *, using: str) -> None:
        raise NotImplementedError

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(f"pgqueue.pause_{self.opts.model_name}")

    @admin.action(description=_("Pause selected %(verbose_name_plural)s"), permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        form = ReasonForm(request.POST if is_confirmed(request) else None)
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
        reason = form.cleaned_data["reason"]

        def act(item: Any) -> str:
            self.pause_one(item, reason, using=queryset.db)
            return _("Paused: %s") % reason

        count = len(self.apply(request, queryset, act, using=queryset.db))
        text = ngettext("%(count)d %(name)s is paused.", "%(count)d %(name)s are paused.", count)
        self.tell_named(request, text, count)
        return None

    @admin.action(description=_("Resume selected %(verbose_name_plural)s"), permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        def act(item: Any) -> str:
            self.resume_one(item, using=queryset.db)
            return _("Resumed.")

        count = len(self.apply(request, queryset.exclude(paused_at=None), act, using=queryset.db))
        text = ngettext("%(count)d %(name)s is resumed.", "%(count)d %(name)s are resumed.", count)
        self.tell_named(request, text, count)

    def tell_named(self, request: HttpRequest, text: str, count: int) -> None:
        named = text % {"count": count, "name": model_ngettext(self.opts, count)}
        self.message_user(request, named, messages.SUCCESS if count else messages.WARNING)
