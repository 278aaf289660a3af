"""Filter shared limits by their state, and messages by what they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin.base import MAX_BIGINT
from django_pgqueue.admin.filters import ChannelNameFilter
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.models import Message, SharedLimit

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class WaitingFilter(ChannelNameFilter):
    """Filter by the shared limit that messages wait for; the list of limits links here. They have an index.

    ``limit``: messages that wait for any; ``key``: those that wait for their order key; ``time``: other scheduled ones.
    """

    title = _("waits for")
    parameter_name = "waits_for"
    groups = {"limit": _("any shared limit"), "key": _("its order key"), "time": _("its time")}

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, StrOrPromise]]:
        value, chosen = self.value(), self.limit_id()
        if value in self.groups:
            return [(value, self.groups[value])]
        names = SharedLimit.objects.using(alias(None)).filter(pk=chosen or 0).values_list("name", flat=True)
        return [(value, next(iter(names), value))] if value else []

    def limit_id(self) -> int | None:
        """Return the id of the chosen limit, or None if the address has none that is valid."""
        value = self.value() or ""
        return int(value) if value.isascii() and value.isdigit() and int(value) <= MAX_BIGINT else None

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case None | "":
                return queryset
            case "limit":
                return queryset.filter(waits_for__gte=0)
            case "key":
                return queryset.filter(waits_for=-1)
            case "time":
                return queryset.filter(status=Message.Status.SCHEDULED, waits_for=None)
        chosen = self.limit_id()
        return queryset.none() if chosen is None else queryset.filter(waits_for=chosen)


class PausedFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, StrOrPromise]]:
        return [("open", _("open")), ("paused", _("paused"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "open":
                return queryset.filter(paused_at=None)
            case "paused":
                return queryset.exclude(paused_at=None)
        return queryset
