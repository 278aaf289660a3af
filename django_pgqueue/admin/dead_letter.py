"""Show dead letters: why they died, and actions to redrive or delete them."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue import codecs
from django_pgqueue.admin import bulk_actions, encoded, rendering
from django_pgqueue.admin.bulk_actions import BulkActionsAdmin, choose
from django_pgqueue.admin.confirmation import COUNTED, SHOWN_ROWS, confirm, is_confirmed
from django_pgqueue.admin.dead_letter_actions import DELETE_DEAD, EDIT
from django_pgqueue.admin.death import reason_html, with_problem
from django_pgqueue.admin.edit_payload import edit_payload
from django_pgqueue.admin.filters import (
    AgeFilter,
    ChannelNameFilter,
    DeadLetterReasonFilter,
    HandlerFilter,
    QueueFilter,
    RedrivenFilter,
)
from django_pgqueue.admin.pace import Pace, RateForm
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.lifecycle.redrive import redrive
from django_pgqueue.models import DeadLetter

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

SHOWN_GROUPS = 50
Row = tuple[int, str, str]
"""Id, queue and channel of a dead letter."""


class DiedFilter(AgeFilter):
    title = _("died")
    column = "dead_at"


class DeadLetterHandlerFilter(HandlerFilter):
    table = "pgqueue_dead_letter"


@admin.register(DeadLetter)
class DeadLetterAdmin(BulkActionsAdmin):
    list_display = ["id", "fate", "what", "why", "attempts_of", "died"]
    list_filter = [
        RedrivenFilter,
        DeadLetterReasonFilter,
        QueueFilter,
        ChannelNameFilter,
        DeadLetterHandlerFilter,
        DiedFilter,
    ]
    search_fields = ["=id", "=channel", "=handler", "=dedupe_key"]
    search_help_text = _("An id, the whole of a channel's name, handler or dedupe key, or payload.customer=42.")
    exact_search = ("channel", "handler", "dedupe_key")
    named_by = ("id", "handler", "reason")
    big_columns = (*BulkActionsAdmin.big_columns, "details")
    actions = ["redrive", "edit", "delete_dead"]
    fieldsets = [
        (None, {"fields": ["id", "channel_shown", "handler", "reason", "details_shown", "fate"]}),
        (_("Story"), {"fields": ["story", "redrives"]}),
        (_("Content"), {"fields": ["payload_shown", "headers_shown", "body_shown", "state_shown"]}),
        (_("Delivery"), {"fields": ["attempts_of", "priority", "backoff", "dedupe_key", "order_key", "worker"]}),
        (_("Times"), {"fields": ["created_at", "dequeue_at", "leased_at", "started_at", "dead_at", "redriven_at"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadLetter]:
        found: QuerySet[DeadLetter] = with_problem(super().get_queryset(request))
        return found

    def has_redrive_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.redrive_deadletter")

    def has_delete_dead_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.delete_deadletter")

    def has_edit_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.edit_deadletter")

    @admin.display(description=_("died"), ordering="dead_at")
    def died(self, letter: DeadLetter) -> str:
        return rendering.at(letter.dead_at)

    @admin.display(description=_("reason"))
    def why(self, letter: Any) -> str:
        return reason_html(letter)

    @admin.display(description=_("redriven"))
    def fate(self, letter: DeadLetter) -> str:
        """Return a badge: waiting, or redriven with the id of the new message."""
        if letter.redriven_at is None:
            return rendering.badge(_("waiting"), "bad")
        return rendering.badge(_("redriven as %s") % letter.redriven_to, "good")

    @admin.display(description=_("details"))
    def details_shown(self, letter: DeadLetter) -> str:
        """Return the details and errors of the letter, decoded if a codec encoded them and the user may read them."""
        if codecs.is_sealed(letter.details):
            return encoded.value_html(letter, letter.details)
        return self.or_dash(rendering.details(letter.details))

    def actions_on(self, item: DeadLetter) -> dict[str, StrOrPromise]:
        if item.redriven_at:
            return {}
        return {"redrive": _("Redrive"), "edit": _("Redrive with another payload"), "delete_dead": _("Delete for good")}

    def groups(self, queryset: QuerySet[DeadLetter], most: int) -> str:
        """Return the number of dead letters by reason and handler, as the commands count them."""
        first = queryset.order_by("id").values("pk")[:most]
        counted = DeadLetter.objects.using(queryset.db).filter(pk__in=first).values_list("reason", "handler")
        found = list(counted.annotate(count=Count("pk")).order_by("-count", "reason", "handler")[: SHOWN_GROUPS + 1])
        rows = [[rendering.number(count), reason, handler] for reason, handler, count in found[:SHOWN_GROUPS]]
        if len(found) > SHOWN_GROUPS:
            rows.append(["", _("and others"), ""])
        return "" if not rows else rendering.table([_("dead letters"), _("reason"), _("handler")], rows)

    @admin.action(description=_("Redrive selected dead letters"), permissions=["redrive"])
    def redrive(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> HttpResponse | None:
        """Ask for confirmation and a rate, then redrive the letters in batches.

        One request works for REQUEST_SECONDS at most. If letters are left then, returns the confirmation page again,
        which goes on with the rest at the same pace; None when done.
        """
        waiting = queryset.filter(redriven_at=None)
        form = RateForm(request.POST if is_confirmed(request) else None)
        if not is_confirmed(request) or not form.is_valid():
            return self.ask_redrive(request, waiting, form)
        chosen = choose(request, waiting, "id", "queue", "channel")
        pace = Pace.asked(request, form.cleaned_data["rate"], using=waiting.db)
        done, redriven, until = 0, 0, time.monotonic() + bulk_actions.REQUEST_SECONDS
        each = len(chosen.rows) <= bulk_actions.LOGGED_ROWS
        while done < len(chosen.rows) and (not done or time.monotonic() < until):
            rows = chosen.rows[done : done + bulk_actions.BATCH_ROWS]
            times = pace.times(done, len(rows))
            redriven += self.redrive_batch(request, rows, times, each=each, using=waiting.db)
            done += len(rows)
        self.show_count(
            request, ngettext("%d dead letter is redriven.", "%d dead letters are redriven.", redriven), redriven
        )
        if redriven and (last := pace.times(done - 1, 1)):
            at = date_format(timezone.localtime(last[0]), "j M Y, H:i:s")
            self.message_user(request, _("They are scheduled; the last is due at %s.") % at)
        self.tell_of_others(request, chosen)
        left = len(chosen.rows) - done
        if left:
            rest = waiting.filter(pk__gt=chosen.rows[done - 1][0])
            return self.ask_redrive(request, rest, form, most=left, hidden=pace.hidden(done))
        return None

    def ask_redrive(
        self, request: HttpRequest, waiting: QuerySet[DeadLetter], form: RateForm, **more: Any
    ) -> HttpResponse:
        """Return the confirmation page of a redrive.

        ``more`` is what the page needs if an earlier request did a part: the number that is left, and the pace so far.
        """
        shown = waiting.order_by("id").only("id", "handler", "reason", "queue", "channel")[:SHOWN_ROWS]
        return confirm(
            self,
            request,
            waiting,
            action="redrive",
            title=_("Redrive dead letters: there are more") if more else _("Redrive dead letters"),
            consequence=_(
                "Each becomes a new message at the end of its channel, with all its attempts. Dead letters that "
                "were redriven before are left out."
            ),
            button=_("Go on") if more else _("Redrive"),
            rows=[(str(letter), f"{letter.queue}/{letter.channel}") for letter in shown],
            groups=self.groups(waiting, more.get("most", COUNTED)),
            form=form,
            **more,
        )

    def redrive_batch(
        self, request: HttpRequest, rows: list[Row], times: list[datetime] | None, *, each: bool, using: str
    ) -> int:
        """Redrive a batch and log it, in one transaction. If a channel refuses, try each channel alone. Returns how
        many."""
        channels = sorted({row[1:] for row in rows})
        try:
            return self.redrive_rows(request, rows, times, each=each, using=using)
        except PgQueueError as error:
            if len(channels) == 1:
                text = _("%(channel)s: %(count)d dead letters stay where they are: %(error)s")
                values = {"channel": "/".join(channels[0]), "count": len(rows), "error": error}
                self.message_user(request, text % values, messages.ERROR)
                return 0
        count = 0
        for channel in channels:
            places = [place for place, row in enumerate(rows) if row[1:] == channel]
            own = [times[place] for place in places] if times else None
            count += self.redrive_batch(request, [rows[place] for place in places], own, each=each, using=using)
        return count

    def redrive_rows(
        self, request: HttpRequest, rows: list[Row], times: list[datetime] | None, *, each: bool, using: str
    ) -> int:
        """Redrive the letters of ``rows`` and write the admin's log, in one transaction.

        ``times`` has the time when each message is due; None means now. ``each`` writes a log entry for each letter,
        else one for all. Returns how many were redriven: those that another request redrove meanwhile do not count.
        """
        with transaction.atomic(using=using):
            new_ids = redrive([pk for pk, *_channel in rows], times=times, using=using)
            letters = DeadLetter.objects.using(using).only("id", "handler", "reason").filter(pk__in=new_ids)
            self.log_batch(request, list(letters.order_by("pk")), _("Redriven."), each=each)
        return len(new_ids)

    @admin.action(description=_("Redrive the selected dead letter with another payload"), permissions=["edit"])
    def edit(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> HttpResponse | None:
        return edit_payload(self, request, queryset.filter(redriven_at=None), EDIT)

    @admin.action(description=_("Delete selected dead letters for good"), permissions=["delete_dead"])
    def delete_dead(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> HttpResponse | None:
        return self.perform(request, queryset.filter(redriven_at=None), DELETE_DEAD)
