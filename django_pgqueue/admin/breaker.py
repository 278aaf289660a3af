"""Show breakers among the shared limits: their state, and actions that open and close them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue.admin import rendering
from django_pgqueue.admin.pausable import PausableAdmin
from django_pgqueue.lifecycle.breaker_close import breaker_close
from django_pgqueue.lifecycle.breaker_open import breaker_open
from django_pgqueue.lifecycle.breakers import BreakerState, breakers
from django_pgqueue.models import Channel, SharedLimit

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class BreakerAdmin(PausableAdmin):
    """Add what breakers have to the admin of shared limits."""

    def actions_on(self, item: SharedLimit) -> dict[str, StrOrPromise]:
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

        def act(item: SharedLimit) -> StrOrPromise:
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


def open_breakers(limits: Iterable[SharedLimit], *, using: str) -> dict[int, BreakerState]:
    """Return the breakers among the limits that are open, by id. Without a breaker among them, nothing is asked."""
    if all(limit.breaker_failures is None for limit in limits):
        return {}
    return {row.id: row for row in breakers(using=using) if row.is_open}


def breaker_badge(found: BreakerState | None) -> str:
    """Return the state of a breaker as a badge: closed (None), open until a time, or trying."""
    if found is None:
        return rendering.badge(_("closed"), "good")
    if found.state == "open" and found.until is not None:
        return rendering.badge(_("breaker open until %s") % rendering.at(found.until), "bad")
    return rendering.badge(_("breaker open, one message tries"), "late")
