"""Dead letters: why they died, and their way back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Left
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue.admin import rendering
from django_pgqueue.admin.confirmation import SHOWN, confirm, is_confirmed
from django_pgqueue.admin.content import ContentAdmin
from django_pgqueue.admin.filters import DeadLetterReasonFilter, QueueFilter, RedrivenFilter
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.lifecycle.redrive import redrive
from django_pgqueue.models import DeadLetter

BATCH = 1_000
MOST = 100_000
"""Redriven in one request, which must end."""
CLIPPED = 160


@admin.register(DeadLetter)
class DeadLetterAdmin(ContentAdmin):
    list_display = ["id", "fate", "channel_shown", "handler", "reason", "problem", "attempts_of", "dead_at"]
    list_filter = [RedrivenFilter, DeadLetterReasonFilter, QueueFilter]
    search_fields = ["=id", "=channel", "=handler", "=dedupe_key"]
    search_help_text = _("An id, or else the whole of a channel's name, handler or dedupe key.")
    exact_search = ("channel", "handler", "dedupe_key")
    big_columns = (*ContentAdmin.big_columns, "details")
    actions = ["redrive"]
    fieldsets = [
        (None, {"fields": ["id", "queue", "channel", "handler", "reason", "details_shown", "fate"]}),
        (_("Content"), {"fields": ["payload_shown", "headers_shown", "body_shown", "state_shown"]}),
        (_("Failed attempts"), {"fields": ["attempts_of", "errors_shown"]}),
        (_("Delivery"), {"fields": ["priority", "backoff", "dedupe_key", "worker", "redriven_from"]}),
        (_("Times"), {"fields": ["created_at", "dequeue_at", "leased_at", "dead_at", "redriven_at"]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeadLetter]:
        # The few words that tell letters apart, without the tracebacks around them.
        message = Coalesce(KT("details__message"), KT("errors__-1__message"), output_field=TextField())
        return super().get_queryset(request).annotate(last_message=Left(message, CLIPPED + 1))

    def has_redrive_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.redrive_deadletter")

    @admin.display(description=_("problem"), empty_value="-")
    def problem(self, letter: DeadLetter) -> str | None:
        text = letter.last_message
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
        return self.or_dash(rendering.details(letter.details))

    @admin.action(description=_("Redrive selected dead letters"), permissions=["redrive"])
    def redrive(self, request: HttpRequest, queryset: QuerySet[DeadLetter]) -> HttpResponse | None:
        waiting = queryset.filter(redriven_at=None)
        if not is_confirmed(request):
            shown = waiting.only("id", "handler", "reason", "queue", "channel")[:SHOWN]
            return confirm(
                self,
                request,
                waiting,
                action="redrive",
                title=_("Redrive dead letters"),
                consequence=_(
                    "Each becomes a new message at the end of its channel, with all its attempts. Dead letters that "
                    "were redriven before are left out."
                ),
                button=_("Redrive"),
                rows=[(str(letter), f"{letter.queue}/{letter.channel}") for letter in shown],
            )
        # Which ones is decided now: what dies from here on was not confirmed, and would keep this request going.
        chosen = list(waiting.order_by("queue", "channel", "id").values_list("queue", "channel", "id")[: MOST + 1])
        redriven = sum(self.redrive_batch(request, *batch, using=queryset.db) for batch in batches(chosen[:MOST]))
        text = ngettext("%d dead letter is redriven.", "%d dead letters are redriven.", redriven) % redriven
        self.message_user(request, text, messages.SUCCESS if redriven else messages.WARNING)
        if len(chosen) > MOST:
            self.message_user(request, _("There are more: redrive again."), messages.WARNING)
        return None

    def redrive_batch(self, request: HttpRequest, channel: str, ids: list[int], *, using: str) -> int:
        """Letters of one channel: redriven and logged, both or neither. What the channel refuses is told."""
        try:
            with transaction.atomic(using=using):
                new_ids = redrive(ids, using=using)
                letters = DeadLetter.objects.using(using).only("id", "handler", "reason").filter(pk__in=new_ids)
                self.log(request, letters, _("Redriven."))
        except PgQueueError as error:
            text = _("%(channel)s: %(count)d dead letters stay where they are: %(error)s")
            values = {"channel": channel, "count": len(ids), "error": error}
            self.message_user(request, text % values, messages.ERROR)
            return 0
        return len(new_ids)


def batches(rows: list[tuple[str, str, int]]) -> Iterator[tuple[str, list[int]]]:
    """A channel and ids of its letters: a channel that takes no messages must not keep the letters of others back."""
    for (queue, channel), group in groupby(rows, key=itemgetter(0, 1)):
        ids = [pk for _queue, _channel, pk in group]
        for start in range(0, len(ids), BATCH):
            yield f"{queue}/{channel}", ids[start : start + BATCH]
