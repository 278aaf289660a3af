"""What a message carries, as it is shown on the page of a live, archived or dead one."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Left
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import ReadOnlyAdmin

# What whoever enqueues has given.
GIVEN = ("payload", "headers")
LONGEST = 100_000


class ContentAdmin(ReadOnlyAdmin):
    list_select_related = False
    ordering = ["-id"]
    sortable_by = ["id"]
    big_columns = ("payload", "body", "headers", "state", "errors")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # A body may be large, on the page of one message too: the preview asks for what it shows. And JSON that Python
        # cannot read must not take the page away.
        return super().get_queryset(request).defer("body", *GIVEN)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        # Looked at, not searched: without an index each guess in the address would read the whole table.
        return lookup.split("__")[0] not in self.big_columns and super().lookup_allowed(lookup, value, request)

    def or_dash(self, text: str | None) -> str:
        """On the page of one object, the admin would write None."""
        return self.get_empty_value_display() if text is None else text

    @admin.display(description=_("channel"))
    def channel_shown(self, item: Any) -> str:
        return rendering.name(f"{item.queue}/{item.channel}")

    @admin.display(description=_("payload"))
    def payload_shown(self, item: Any) -> str:
        return json_shown(item, "payload")

    @admin.display(description=_("headers"))
    def headers_shown(self, item: Any) -> str:
        return self.or_dash(json_shown(item, "headers"))

    @admin.display(description=_("saved state"))
    def state_shown(self, item: Any) -> str:
        return self.or_dash(rendering.pretty_json_or_none(item.state))

    @admin.display(description=_("body"))
    def body_shown(self, item: Any) -> str:
        return self.or_dash(rendering.body_preview(item))

    @admin.display(description=_("errors"))
    def errors_shown(self, item: Any) -> str:
        return self.or_dash(rendering.attempts(item.errors))

    @admin.display(description=_("attempts"))
    def attempts_of(self, item: Any) -> str:
        return _("%(attempts)d of %(most)d") % {"attempts": item.attempts, "most": item.max_attempts}


def json_shown(item: Any, column: str) -> str | None:
    """The column's JSON; as PostgreSQL writes it where Python cannot read it, because SQL has enqueued it too deep or
    with numbers of thousands of digits."""
    try:
        value = getattr(item, column)
        return None if value is None and column != "payload" else rendering.pretty_json(value)
    except (ValueError, RecursionError):
        row = type(item)._base_manager.using(item._state.db).filter(pk=item.pk)
        text = Left(Cast(column, TextField()), LONGEST)
        return rendering.pre(row.annotate(text=text).values_list("text", flat=True).get())
