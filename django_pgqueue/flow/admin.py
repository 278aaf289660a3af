"""The admin of batches: how far each is, which members are outstanding or lost, and what followed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import ReadOnlyAdmin, capped, column
from django_pgqueue.admin.picture import badge_of, link_to, picture_of_batch
from django_pgqueue.flow.batch import Batch
from django_pgqueue.flow.models import BatchRecord
from django_pgqueue.sql.call import call

SHOWN_MEMBERS = 100
MOST_COUNTED = 10_000
# The newest members: they are settled last. A nested batch has no message.
OUTSTANDING = """
SELECT o.member_id, m.status, m.waits_for
FROM (
    SELECT b.member_id FROM pgqueue_batch_member AS b WHERE b.batch_id = %s ORDER BY b.member_id DESC LIMIT %s
) AS o
LEFT JOIN pgqueue_message AS m ON m.id = o.member_id
ORDER BY o.member_id DESC
"""
BY_STATE = """
SELECT m.status, CASE WHEN m.waits_for >= 0 THEN 0 ELSE m.waits_for END, count(*)
FROM (SELECT b.member_id FROM pgqueue_batch_member AS b WHERE b.batch_id = %s LIMIT %s) AS o
LEFT JOIN pgqueue_message AS m ON m.id = o.member_id
GROUP BY 1, 2
ORDER BY 1, 2
"""
LOST = """
SELECT l.member_id, l.outcome FROM pgqueue_batch_lost AS l WHERE l.batch_id = %s ORDER BY l.member_id DESC LIMIT %s
"""
WHERE_IS = """
SELECT CASE
    WHEN EXISTS (SELECT FROM pgqueue_message AS m WHERE m.id = u.id) THEN 'message'
    WHEN EXISTS (SELECT FROM pgqueue_dead_letter AS d WHERE d.id = u.id) THEN 'deadletter'
    WHEN EXISTS (SELECT FROM pgqueue_archived_message AS a WHERE a.id = u.id) THEN 'archivedmessage'
END
FROM (SELECT %s::bigint) AS u (id)
"""


@admin.register(BatchRecord)
class BatchAdmin(ReadOnlyAdmin):
    """Show batches, the newest first."""

    list_display = ["id", "state", "members", "outer", "followed", "opened_at", "finished_at"]
    ordering = ["-id"]
    sortable_by = ["id"]
    search_fields = ["=id"]
    big_columns = ("on_done", "on_dead")
    fields = [
        "id",
        "state",
        "outer",
        "picture",
        "counts",
        "outstanding",
        "lost",
        "followed",
        "opened_at",
        "finished_at",
    ]

    members = column(_("members in its block"), lambda batch: rendering.number(f"{batch.total:,}"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[BatchRecord]:
        # The others are messages that wait.
        return super().get_queryset(request).filter(pk__gt=0)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        batch = super().get_object(request, object_id, from_field)
        if batch is not None:
            batch.link = self.link_for(request)
        return batch

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found = super().get_changelist_instance(request)
        link = self.link_for(request)
        for batch in found.result_list:
            batch.link = link
        return found

    @admin.display(description=_("state"))
    def state(self, batch: BatchRecord) -> str:
        """Return a badge; the reason beside it, if what follows was refused."""
        if batch.refusal is not None:
            text, kind = (_("waits for room"), "late") if batch.finished_at is None else (_("refused"), "bad")
            reason = batch.refusal.get("message", "") if isinstance(batch.refusal, dict) else ""
            return format_html("{} {}", rendering.badge(text, kind), rendering.name(reason))
        return rendering.badge(*((_("over"), "good") if batch.finished_at is not None else (_("running"), "busy")))

    @admin.display(description=_("outer batch"))
    def outer(self, batch: Any) -> str:
        return self.or_dash(None if batch.parent_id is None else link_to(batch.link, -batch.parent_id, ""))

    @admin.display(description=_("what followed"))
    def followed(self, batch: Any) -> str:
        if batch.callback_id is None:
            return self.or_dash(None)
        [(model,)] = call(batch._state.db, WHERE_IS, [batch.callback_id])
        return link_to(batch.link, batch.callback_id, model or "")

    @admin.display(description=_("members by state"))
    def counts(self, batch: BatchRecord) -> str:
        """Return a table of the members by state. Outstanding ones are looked at up to MOST_COUNTED."""
        using = batch._state.db
        counts = Batch.of_id(batch.pk, using=using).counts()
        rows: list[tuple[Any, int]] = [(_("done"), counts.done), *counts.lost.items()]
        live = call(using, BY_STATE, [batch.pk, MOST_COUNTED])
        rows += [(state_text(*state), capped(count, MOST_COUNTED - 1)) for *state, count in live]
        return rendering.table([_("state"), _("members")], [*rows, (_("all"), counts.total)])

    @admin.display(description=_("newest outstanding members"))
    def outstanding(self, batch: Any) -> str:
        found = call(batch._state.db, OUTSTANDING, [batch.pk, SHOWN_MEMBERS])
        rows = [(link_to(batch.link, member, "message"), state_text(*state)) for member, *state in found]
        return rendering.table([_("member"), _("state")], rows) if rows else self.or_dash(None)

    @admin.display(description=_("newest lost members"))
    def lost(self, batch: Any) -> str:
        found = call(batch._state.db, LOST, [batch.pk, SHOWN_MEMBERS])
        kept = {"dead": "deadletter", "erased": ""}
        rows = [(link_to(batch.link, member, kept.get(end, "archivedmessage")), end) for member, end in found]
        return rendering.table([_("member"), _("outcome")], rows) if rows else self.or_dash(None)

    @admin.display(description=_("what hangs together"))
    def picture(self, batch: Any) -> str:
        return self.or_dash(picture_of_batch(batch, link=batch.link, using=batch._state.db))


def state_text(status: int | None, waits_for: int | None) -> str | Promise:
    """Return the state of an outstanding member. ``status`` None: it is a batch."""
    return _("running batch") if status is None else badge_of("message", str(status), waits_for)[0]
