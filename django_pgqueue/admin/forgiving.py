"""Define the action "forgive", the same for channels, queues and shared limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue.admin.pausable import PausableAdmin

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class ForgivingAdmin(PausableAdmin):
    """Show a model with a rate, which messages that cost more than its burst leave in debt."""

    def forgive_one(self, item: Any, *, using: str) -> None:
        """End the debt of one object. Each admin implements it."""
        raise NotImplementedError

    def actions_on(self, item: Any) -> dict[str, StrOrPromise]:
        forgive = {} if item.release_interval is None else {"forgive": _("Forgive the debt")}
        return super().actions_on(item) | forgive

    @admin.action(description=_("Forgive the debts of selected %(verbose_name_plural)s"), permissions=["change"])
    def forgive(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """End the debts of the rates of the objects that have one."""

        def act(item: Any) -> StrOrPromise:
            self.forgive_one(item, using=queryset.db)
            return str(_("The debt of its rate is forgiven."))

        count = len(self.apply(request, queryset.exclude(release_interval=None), act, using=queryset.db))
        text = ngettext("%(count)d %(name)s has no debt now.", "%(count)d %(name)s have no debt now.", count)
        self.show_named_count(request, text, count)
