"""Show dead letters: why they died, and actions to redrive or delete them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from django_pgqueue import codecs, redrive
from django_pgqueue.admin import content, rendering
from django_pgqueue.admin.base import Text, column, needs
from django_pgqueue.admin.bulk_actions import Action, BulkActionsAdmin, Run, bulk
from django_pgqueue.admin.edit_payload import edit_payload
from django_pgqueue.admin.filters import (
    AgeFilter,
    ChannelNameFilter,
    ErrorFilter,
    HandlerFilter,
    QueueFilter,
    ReasonFilter,
    RedrivenFilter,
)
from django_pgqueue.admin.forms import RateField
from django_pgqueue.admin.message_actions import DELETE_DEAD, EDIT_DEAD, with_reason
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.models import DeadLetter
from django_pgqueue.sql.call import call

SHOWN_GROUPS = 50
LONGEST_ERROR = 500
"""The most characters of an error's message in a list, most of them in the title."""


class DiedFilter(AgeFilter):
    title = _("died")
    column = "dead_at"


class RateForm(forms.Form):
    rate = RateField(
        label=_("Rate"),
        required=False,
        min_value=0.001,
        max_value=100_000,
        help_text=_("Such as 10/m, or a number per second; they are due one after the other. Empty: all at once."),
    )


@dataclass(slots=True)
class Pace:
    """Spread a redrive over time, at a rate per second: each message is scheduled at a time of its own, and can be
    seen, rescheduled and cancelled like any other.

    ``begun_at``: when the first is due, by the clock of the database. ``done``: how many messages this request and
    those before it have scheduled. ``last``: when the last of them is due; None without a rate. ``redriven``: how many
    this request has redriven.
    """

    begun_at: datetime
    done: int = 0
    last: datetime | None = None
    redriven: int = 0

    @classmethod
    def asked(cls, request: HttpRequest, *, using: str) -> Pace:
        """Read how far a redrive is; begin now, if the request says nothing or nonsense."""
        try:
            begun_at = parse_datetime(request.POST.get("begun_at", ""))
        except ValueError:
            begun_at = None
        before = request.POST.get("before", "")
        if begun_at is None or timezone.is_naive(begun_at) or not before.isdecimal():
            return cls(call(using, "SELECT clock_timestamp()")[0][0])
        return cls(begun_at, int(before))

    def times(self, ids: list[int], rate: float) -> dict[int, datetime]:
        """Return when each of the next messages is due."""
        found = {pk: self.begun_at + timedelta(seconds=(self.done + n) / rate) for n, pk in enumerate(ids)}
        self.done += len(ids)
        self.last = found[ids[-1]]
        return found

    def hidden(self) -> list[tuple[str, str]]:
        """Return the hidden fields that the next request needs."""
        return [("begun_at", self.begun_at.isoformat()), ("before", str(self.done))] if self.last else []


def redrive_action(run: Run, pace: Pace) -> Action:
    """Return the action that redrives dead letters at a pace."""
    return Action(
        name="redrive",
        title=_("Redrive dead letters"),
        consequence=_(
            "Each becomes a new message at the end of its channel, with all its attempts. Dead letters that were "
            "redriven before are left out."
        ),
        button=_("Redrive"),
        run=run,
        done={"redriven": ngettext_lazy("%d dead letter is redriven.", "%d dead letters are redriven.")},
        left={},
        logged=with_reason("Redriven"),
        form=RateForm,
        note=lambda letter: f"{letter.queue}/{letter.channel}",
        carried=pace.hidden,
    )


@admin.register(DeadLetter)
class DeadLetterAdmin(BulkActionsAdmin):
    list_display = ["id", "fate", "what", "why", "attempts_of", "died", "payload_listed"]
    list_filter = [RedrivenFilter, ReasonFilter, QueueFilter, ChannelNameFilter, HandlerFilter, DiedFilter, ErrorFilter]
    search_fields = ["=id", "=channel", "=handler", "=dedupe_key"]
    search_help_text = _("An id, key, handler, channel or word of an error, or a part of it; or payload.customer=42.")
    exact_search = ("channel", "handler", "dedupe_key")
    part_search = ("order_key", "reason", "details__type", "details__message", *content.ERRORS)
    named_by = ("id", "handler", "reason", "queue", "channel")
    big_columns = (*BulkActionsAdmin.big_columns, "details")
    actions = ["redrive", "edit", "delete_dead"]
    fieldsets = [
        (None, {"fields": ["reason", "details_shown", "channel_shown", "handler", "fate", *content.CONTENT]}),
        (_("Story"), {"fields": ["story", "redrives"]}),
        (_("Delivery"), {"fields": ["attempts_of", "priority", "backoff", "dedupe_key", "order_key", "worker"]}),
        (_("Times"), {"fields": ["created_at", "dequeue_at", "leased_at", "started_at", "dead_at", "redriven_at"]}),
    ]
    has_redrive_permission = needs("redrive_deadletter")
    has_delete_dead_permission = needs("delete_deadletter")
    has_edit_permission = needs("edit_deadletter")

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadLetter]:
        return with_problem(super().get_queryset(request))

    died = column(_("died"), lambda letter: rendering.short(letter.dead_at), ordering="dead_at")
    why = column(_("reason"), lambda letter: reason_html(letter))

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
            return content.value_html(letter, letter.details)
        return self.or_dash(rendering.details(letter.details))

    def actions_on(self, item: DeadLetter) -> dict[str, Text]:
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
        """Ask for confirmation and a rate, then redrive the letters in batches, over several requests if need be."""
        pace = Pace.asked(request, using=queryset.db)
        act = redrive_action(partial(self.redrive_batch, request, pace), pace)
        response = self.perform(request, queryset.filter(redriven_at=None), act)
        if pace.last and pace.redriven:
            at = date_format(timezone.localtime(pace.last), "j M Y, H:i:s")
            self.message_user(request, _("They are scheduled; the last is due at %s.") % at)
        return response

    def redrive_batch(
        self, request: HttpRequest, pace: Pace, ids: list[int], cleaned: Mapping[str, Any], using: str
    ) -> dict[int, str]:
        """Redrive the letters at the pace. If a channel refuses, its letters stay, and the others are redriven."""
        times = pace.times(ids, cleaned["rate"]) if cleaned["rate"] else None

        def redriven(part: list[int]) -> dict[int, str]:
            with transaction.atomic(using=using):
                due = None if times is None else [times[pk] for pk in part]
                new_ids = redrive(part, times=due, using=using)
            pace.redriven += len(new_ids)
            return dict.fromkeys(new_ids, "redriven")

        try:
            return redriven(ids)
        except PgQueueError:
            channels: dict[str, list[int]] = defaultdict(list)
            letters = DeadLetter.objects.using(using).filter(pk__in=ids).order_by("queue", "channel", "id")
            for pk, queue, channel in letters.values_list("pk", "queue", "channel"):
                channels[f"{queue}/{channel}"].append(pk)
        done: dict[int, str] = {}
        for channel, part in channels.items():
            try:
                done |= redriven(part)
            except PgQueueError as error:
                text = _("%(channel)s: %(count)d dead letters stay where they are: %(error)s")
                values = {"channel": channel, "count": len(part), "error": error}
                self.message_user(request, text % values, messages.ERROR)
        return done

    delete_dead = bulk(DELETE_DEAD, _("Delete selected dead letters for good"), "delete_dead", redriven_at=None)

    @admin.action(description=_("Redrive the selected dead letter with another payload"), permissions=["edit"])
    def edit(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> HttpResponse | None:
        return edit_payload(self, request, queryset.filter(redriven_at=None), EDIT_DEAD)


def with_problem(letters: QuerySet[Any]) -> QuerySet[Any]:
    """Add type and message of the error to each dead letter, without loading the traceback."""
    words = {
        f"{place}_{key}": Left(KT(f"{column}__{key}"), LONGEST_ERROR)
        for place, column in {"given": "details", "last": "errors__-1"}.items()
        for key in ("type", "message")
    }
    found: QuerySet[Any] = letters.annotate(**words)
    return found


def reason_html(letter: Any) -> str:
    """Return the reason of a row of with_problem() as HTML, and behind it type and message of its error."""
    given = [letter.given_type, letter.given_message]
    text = ": ".join(word for word in (given if any(given) else [letter.last_type, letter.last_message]) if word)
    if not text:
        return format_html("{}", letter.reason)
    return rendering.line(letter.reason, text)
