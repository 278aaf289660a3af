"""Show the content of a live, archived or dead message."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib import admin, messages
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Left
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import encoded, payload_search, rendering, story
from django_pgqueue.admin.base import ReadOnlyAdmin
from django_pgqueue.admin.story import RedriveEntry, redrive_history

# JSON columns that the enqueuer fills.
GIVEN = ("payload", "headers")
LONGEST_CHARACTERS = 100_000


class ContentAdmin(ReadOnlyAdmin):
    """Show messages with their content."""

    list_select_related = False
    ordering = ["-id"]
    sortable_by = ["id"]
    big_columns: tuple[str, ...] = ("payload", "body", "headers", "state", "errors")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # A body may be large, so the preview loads only the part that it shows. JSON that Python cannot read must not
        # break the page, so it is loaded apart.
        return super().get_queryset(request).defer("body", *GIVEN)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        item = super().get_object(request, object_id, from_field)
        return None if item is None else encoded.prepare(request, item)

    def lookup_allowed(self, lookup: str, value: Any, request: Any = None) -> bool:
        # These columns have no index: each filter in the address would read the whole table.
        return lookup.split("__")[0] not in self.big_columns and super().lookup_allowed(lookup, value, request)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search payloads if the term asks for a value of a payload.

        Shows an error if the table has no index for that, and MOST_FOUND_ROWS rows at most.
        """
        wanted = payload_search.payload_terms(search_term.strip())
        if wanted is None:
            return super().get_search_results(request, queryset, search_term)
        table, using = self.opts.db_table.removeprefix("pgqueue_"), queryset.db
        if not payload_search.is_indexed(table, using=using):
            text = _("The search of payloads needs an index, %s. The owner of the table creates it with: %s")
            self.message_user(request, text % payload_search.index_of(table), messages.ERROR)
            return queryset.none(), False
        found = payload_search.find_by_payload(table, wanted, using=using)
        if len(found) > payload_search.MOST_FOUND_ROWS:
            text = _("More than %d payloads match, and not all are shown. Search for a rarer value.")
            self.message_user(request, text % payload_search.MOST_FOUND_ROWS, messages.WARNING)
        return queryset.filter(pk__in=found[: payload_search.MOST_FOUND_ROWS]), False

    def or_dash(self, text: str | None) -> str:
        """Return the text, or the admin's sign for an empty value in place of None."""
        return str(self.get_empty_value_display()) if text is None else text

    @admin.display(description=_("channel"))
    def channel_shown(self, item: Any) -> str:
        return self.link_to_channel(item.queue, item.channel)

    @admin.display(description=_("handler, channel"))
    def what(self, item: Any) -> str:
        """Return handler and channel in one column: names may be long, and the outcome must stay on the screen."""
        return format_html('<span class="pgqueue-what">{}<br>{}</span>', item.handler, self.channel_of(item))

    def channel_of(self, item: Any) -> str:
        """Return the channel of a message for the column ``what``; MessageAdmin takes it from the channel's row."""
        return self.channel_shown(item)

    @admin.display(description=_("payload"))
    def payload_shown(self, item: Any) -> str:
        return self.or_dash(json_shown(item, "payload"))

    @admin.display(description=_("headers"))
    def headers_shown(self, item: Any) -> str:
        return self.or_dash(json_shown(item, "headers"))

    @admin.display(description=_("saved state"))
    def state_shown(self, item: Any) -> str:
        return self.or_dash(encoded.value_html_or_none(item, item.state))

    @admin.display(description=_("body"))
    def body_shown(self, item: Any) -> str:
        return self.or_dash(rendering.body_preview(item))

    @admin.display(description=_("story"))
    def story(self, item: Any) -> str:
        return story.story(item)

    @admin.display(description=_("redrives"))
    def redrives(self, item: Any) -> str:
        """Return all messages of a chain of redrives, the earliest first."""
        others = redrive_history(item.redriven_from, getattr(item, "redriven_to", None), using=item._state.db)
        if not others:
            return self.get_empty_value_display()
        before = [self.redrive_link(other) for other in others if other.step < 0]
        since = [self.redrive_link(other) for other in others if other.step > 0]
        this = format_html("<strong>{}</strong>", _("%d, this one") % item.pk)
        return format_html_join(" → ", "{}", ((text,) for text in (*before, this, *since)))

    def redrive_link(self, entry: RedriveEntry) -> str:
        """Return one message of the chain as a link."""
        if not entry.model:
            return _("%d, gone") % entry.id
        name = apps.get_model("pgqueue", entry.model)._meta.verbose_name
        return self.link(f"{entry.id}, {name}", f"{entry.model}_change", entry.id)

    @admin.display(description=_("attempts"))
    def attempts_of(self, item: Any) -> str:
        return _("%(attempts)d of %(most)d") % {"attempts": item.attempts, "most": item.max_attempts}


def json_shown(item: Any, column: str) -> str | None:
    """Return the column's JSON. JSON that Python cannot read, because it is too deep or has too long numbers, is shown
    as PostgreSQL writes it."""
    try:
        value = getattr(item, column)
        return None if value is None and column != "payload" else encoded.value_html(item, value)
    except (ValueError, RecursionError):
        row = type(item)._base_manager.using(item._state.db).filter(pk=item.pk)
        text = Left(Cast(column, TextField()), LONGEST_CHARACTERS)
        return rendering.pre(row.annotate(text=text).values_list("text", flat=True).get())
