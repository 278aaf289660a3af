"""Erase one channel from the admin: the page before it counts the rows by table."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from django_pgqueue import channel_erase
from django_pgqueue.admin.base import BaseAdmin, user_of
from django_pgqueue.admin.confirmation import Question, confirm, is_confirmed
from django_pgqueue.exceptions import PgQueueError
from django_pgqueue.models import Channel
from django_pgqueue.sql.call import call

ARCHIVE_BYTES = """
SELECT coalesce(sum(pg_relation_size(p.relid)), 0)::bigint
FROM pg_partition_tree('pgqueue_archived_message') AS p WHERE p.isleaf AND p.level > 0
"""
MOST_BYTES = 1024**3
"""An erase reads the whole archive twice, and a request must end."""


class EraseForm(forms.Form):
    force = forms.BooleanField(
        label=_("Messages under lease, too"),
        required=False,
        help_text=_(
            "Their workers lose the lease and cannot settle them. Otherwise they stay, and the channel pauses."
        ),
    )


ERASE = Question(
    "erase",
    _("Erase a channel"),
    _(
        "All rows of this channel are deleted for good: live messages, archive, dead letters, schedules, figures and "
        "the channel itself. Nothing brings them back. A lake is erased by pgqueue lake erase."
    ),
    _("Erase"),
)


def erase_channels(model_admin: BaseAdmin, request: HttpRequest, queryset: QuerySet[Channel]) -> HttpResponse | None:
    """Show what an erase would remove, or do it. Returns None when it is done or impossible."""
    found = list(queryset[:2])
    if len(found) != 1:
        model_admin.message_user(request, _("Select one channel: a tenant is erased alone."), messages.WARNING)
        return None
    [channel] = found
    if call(queryset.db, ARCHIVE_BYTES)[0][0] > MOST_BYTES:
        text = _("The archive is too large for a request: run manage.py pgqueue erase channel NAME --queue NAME.")
        model_admin.message_user(request, text, messages.ERROR)
        return None
    given: dict[str, Any] = {"queue": channel.queue, "channel": channel.name, "using": queryset.db}
    try:
        if not is_confirmed(request):
            rows = [(str(channel), erased_rows_text(channel_erase(**given, force=True, dry_run=True).erased))]
            return confirm(model_admin, request, queryset, ERASE, rows=rows, form=EraseForm())
        report = channel_erase(**given, force=EraseForm(request.POST).data.get("force") == "on")
    except PgQueueError as error:
        model_admin.message_user(request, f"{channel}: {error}", messages.ERROR)
        return None
    log(request, channel, erased_rows_text(report.erased))
    model_admin.message_user(request, _("Erased: %s.") % erased_rows_text(report.erased), messages.SUCCESS)
    if report.left:
        text = _("Not erased yet: %s. Workers hold leases, or other transactions hold rows: erase it again.")
        model_admin.message_user(request, text % erased_rows_text(report.left), messages.WARNING)
    return None


def erased_rows_text(counts: dict[str, int]) -> str:
    """Return the number of rows by table as text."""
    return ", ".join(f"{count:,} {table}" for table, count in counts.items()) or str(_("no rows"))


def log(request: HttpRequest, channel: Channel, text: str) -> None:
    """Write the history without the channel's name: it may be the tenant's."""
    LogEntry.objects.create(
        user_id=user_of(request).pk,
        content_type=ContentType.objects.get_for_model(Channel),
        object_id=str(channel.pk),
        object_repr=f"#{channel.pk}",
        action_flag=DELETION,
        change_message=str(_("Erased: %s.") % text),
    )
