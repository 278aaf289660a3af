"""Show dead letters: why they died, and actions to redrive or discard them."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.models import DELETION
from django.db import transaction
from django.db.models import Count, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, ngettext_lazy

from django_pgqueue import codecs
from django_pgqueue.admin import bulk_actions, encoded, rendering
from django_pgqueue.admin.bulk_actions import Action, BulkActionsAdmin, choose
from django_pgqueue.admin.confirmation import COUNTED, SHOWN, OptionalReasonForm, confirm, is_confirmed
from django_pgqueue.admin.edit_payload import PayloadAction, edit_payload
from django_pgqueue.admin.filters import (
    AgeFilter,
    ChannelNameFilter,
    DeadLetterReasonFilter,
    HandlerFilter,
    QueueFilter,
    RedrivenFilter,
)
from django_pgqueue.admin.message_actions import with_reason
from django_pgqueue.admin.pace import Pace, RateForm
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.lifecycle.discard_dead import discard_dead
from django_pgqueue.lifecycle.redrive import redrive
from django_pgqueue.models import DeadLetter

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

CLIPPED = 160
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
    actions = ["redrive", "edit", "discard"]
    fieldsets = [
        (None, {"fields": ["id", "queue", "channel", "handler", "reason", "details_shown", "fate"]}),
        (_("Story"), {"fields": ["story", "redrives"]}),
        (_("Content"), {"fields": ["payload_shown", "headers_shown", "body_shown", "state_shown"]}),
        (_("Delivery"), {"fields": ["attempts_of", "priority", "backoff", "dedupe_key", "worker"]}),
        (_("Times"), {"fields": ["created_at", "dequeue_at", "leased_at", "dead_at", "redriven_at"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadLetter]:
        # Loads type and message of the error only, without the traceback.
        words = {
            f"{place}_{key}": Left(KT(f"{column}__{key}"), CLIPPED + 1)
            for place, column in {"given": "details", "last": "errors__-1"}.items()
            for key in ("type", "message")
        }
        found: QuerySet[DeadLetter] = super().get_queryset(request).annotate(**words)
        return found

    def has_redrive_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.redrive_deadletter")

    def has_discard_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.discard_deadletter")

    def has_edit_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.edit_deadletter")

    @admin.display(description=_("died"), ordering="dead_at")
    def died(self, letter: DeadLetter) -> str:
        return rendering.at(letter.dead_at)

    @admin.display(description=_("reason"))
    def why(self, letter: Any) -> str:
        return format_html("{}{}", letter.reason, self.problem(letter) or "")

    def problem(self, letter: Any) -> str | None:
        """Return type and message of the error, clipped; None without one."""
        given = [letter.given_type, letter.given_message]
        text = ": ".join(word for word in (given if any(given) else [letter.last_type, letter.last_message]) if word)
        if not text:
            return None
        clipped = text if len(text) <= CLIPPED else f"{text[:CLIPPED]}…"
        return format_html('<span class="pgqueue-clip">{}</span>', clipped)

    @admin.display(description=_("redriven"))
    def fate(self, letter: DeadLetter) -> str:
        if letter.redriven_at is None:
            return rendering.badge(_("waiting"), "bad")
        return rendering.badge(_("redriven as %s") % letter.redriven_to, "good")

    @admin.display(description=_("details"))
    def details_shown(self, letter: DeadLetter) -> str:
        if codecs.is_sealed(letter.details):
            return encoded.shown(letter, letter.details)
        return self.or_dash(rendering.details(letter.details))

    def actions_on(self, item: DeadLetter) -> dict[str, StrOrPromise]:
        if item.redriven_at:
            return {}
        return {"redrive": _("Redrive"), "edit": _("Redrive with another payload"), "discard": _("Discard")}

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
        waiting = queryset.filter(redriven_at=None)
        form = RateForm(request.POST if is_confirmed(request) else None)
        if not is_confirmed(request) or not form.is_valid():
            return self.ask_redrive(request, waiting, form)
        chosen = choose(request, waiting, "id", "queue", "channel")
        pace = Pace.asked(request, form.cleaned_data["rate"], using=waiting.db)
        done, redriven, until = 0, 0, time.monotonic() + bulk_actions.SECONDS
        each = len(chosen.rows) <= bulk_actions.EACH
        while done < len(chosen.rows) and (not done or time.monotonic() < until):
            rows = chosen.rows[done : done + bulk_actions.BATCH]
            times = pace.times(done, len(rows))
            redriven += self.redrive_batch(request, rows, times, each=each, using=waiting.db)
            done += len(rows)
        self.tell(request, ngettext("%d dead letter is redriven.", "%d dead letters are redriven.", redriven), redriven)
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
        shown = waiting.order_by("id").only("id", "handler", "reason", "queue", "channel")[:SHOWN]
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
        with transaction.atomic(using=using):
            new_ids = redrive([pk for pk, *_channel in rows], times=times, using=using)
            letters = DeadLetter.objects.using(using).only("id", "handler", "reason").filter(pk__in=new_ids)
            self.log_batch(request, list(letters.order_by("pk")), _("Redriven."), each=each)
        return len(new_ids)

    @admin.action(description=_("Redrive the selected dead letter with another payload"), permissions=["edit"])
    def edit(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> HttpResponse | None:
        return edit_payload(self, request, queryset.filter(redriven_at=None), EDIT)

    @admin.action(description=_("Discard selected dead letters"), permissions=["discard"])
    def discard(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> HttpResponse | None:
        return self.perform(request, queryset.filter(redriven_at=None), DISCARD)


class DiscardDeadForm(OptionalReasonForm):
    kept = _("Kept in the history.")


def redriven_with(pk: int, payload: Any, using: str) -> tuple[bool, StrOrPromise]:
    """Redrive one dead letter with another payload. Returns whether it was done, and the text for the user."""
    new_ids = redrive([pk], payload=payload, using=using)
    if not new_ids:
        return False, _("The dead letter is redriven already, or another transaction redrives it at this moment.")
    return True, _("Redriven with another payload, as message %d.") % new_ids[pk]


EDIT = PayloadAction(
    name="edit",
    title=_("Redrive with another payload"),
    consequence=_(
        "A new message with this payload goes to the end of its channel, with all its attempts. The dead letter keeps "
        "the old payload, and names the new message."
    ),
    button=_("Redrive"),
    run=redriven_with,
)
DISCARD = Action(
    name="discard",
    title=_("Discard dead letters"),
    consequence=_(
        "They are deleted for good: no redrive brings them back. A lake keeps what was exported before. Dead letters "
        "that were redriven are left out."
    ),
    button=_("Discard for good"),
    run=lambda ids, cleaned, using: discard_dead(ids, using=using),
    done={"discarded": ngettext_lazy("%d dead letter is discarded.", "%d dead letters are discarded.")},
    left={
        "redriven": ngettext_lazy(
            "%d dead letter was redriven, and stays.", "%d dead letters were redriven, and stay."
        ),
        "unexported": ngettext_lazy(
            "%d dead letter stays until a lake has it.", "%d dead letters stay until a lake has them."
        ),
        "busy": ngettext_lazy(
            "%d dead letter is unchanged: another transaction has locked it. Repeat the action.",
            "%d dead letters are unchanged: other transactions have locked them. Repeat the action.",
        ),
        "not_found": ngettext_lazy("%d dead letter no longer exists.", "%d dead letters no longer exist."),
    },
    logged=with_reason("Discarded"),
    form=DiscardDeadForm,
    flag=DELETION,
)
