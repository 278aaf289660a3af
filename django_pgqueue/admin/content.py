"""Show the content of a live, archived or dead message. What a codec has encoded is decoded for users with the
permission, and a word for all others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.apps import apps
from django.contrib import admin, messages
from django.db.models import Case, Func, IntegerField, Q, QuerySet, TextField, Value, When
from django.db.models.functions import Cast, Left
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html, format_html_join
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from django_pgqueue import codecs
from django_pgqueue.admin import payload_search, rendering, story
from django_pgqueue.admin.base import ReadOnlyAdmin, Text, column
from django_pgqueue.admin.story import RedriveEntry, redrive_history
from django_pgqueue.jsonb import from_json
from django_pgqueue.lifecycle.enqueue import FLOW
from django_pgqueue.lifecycle.logs import logs_of
from django_pgqueue.lifecycle.sealing import open_row, place_of_row
from django_pgqueue.models import ArchivedMessage, Message
from django_pgqueue.sql.call import alias, call

PROGRESS = "SELECT p.done, p.total, p.note, p.updated_at FROM pgqueue_progress AS p WHERE p.message_id = %s"
STEPS = """
SELECT s.kind, s.name, s.value::text, s.until, s.kept_at FROM pgqueue_step AS s
WHERE s.message_id = %s ORDER BY s.kept_at LIMIT 100
"""
SHOWN_RESULT_CHARACTERS = 200
LISTED_BYTES = 2_000
"""A payload that takes more than this in its table is not read for a list: its size is shown."""
LISTED_CHARACTERS = 1_000
# JSON columns that the enqueuer fills.
GIVEN = ("payload", "headers")
LONGEST_CHARACTERS = 100_000
ERRORS = ("errors__-1__type", "errors__-1__message")
CONTENT = ("payload_shown", "headers_shown", "body_shown", "state_shown")
PERMISSION = "pgqueue.view_decrypted_payload"


class ContentAdmin(ReadOnlyAdmin):
    """Show messages with their content."""

    change_form_template = "admin/pgqueue/content_form.html"
    list_select_related = False
    ordering = ["-id"]
    sortable_by = ["id"]
    big_columns: tuple[str, ...] = ("payload", "body", "headers", "state", "errors")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # A body may be large, so the preview loads only the part that it shows. JSON that Python cannot read must not
        # break the page, so it is loaded apart.
        return super().get_queryset(request).defer("body", *GIVEN)

    def fill(self, rows: list[Any]) -> None:
        """Add the start of each payload, or the size of one that is large. PostgreSQL knows the size unread."""
        size = Func("payload", function="pg_column_size", output_field=IntegerField())
        start = Left(Cast("payload", TextField()), LISTED_CHARACTERS)
        ids = [row.pk for row in rows]
        found = self.model._base_manager.using(alias(None)).filter(pk__in=ids)
        if rows and (times := [row.archived_at for row in rows if hasattr(row, "archived_at")]):
            found = found.filter(archived_at__range=(min(times), max(times)))  # only the partitions of these days
        encoded, small = When(payload__has_key=codecs.MARK, then=Value("")), Q(size__lte=LISTED_BYTES)
        found = found.annotate(size=size).annotate(start=Case(When(~small, then=None), encoded, default=start))
        starts = {pk: (size, start) for pk, size, start in found.values_list("pk", "size", "start")}
        for row in rows:
            row.listed_payload = starts.get(row.pk, (None, None))

    @admin.display(description=_("payload"))
    def payload_listed(self, item: Any) -> str:
        """Return the start of the payload in a line. What a codec has encoded is not decoded: a page shows it."""
        size, start = item.listed_payload
        if size is None:
            return self.or_dash(None)
        if start is None:
            return format_html('<span class="quiet">{}</span>', filesizeformat(size))
        if not start:
            return format_html('<span class="quiet">{}</span>', _("encrypted"))
        return rendering.line(start)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **more: Any
    ) -> HttpResponse:
        """Show the page in columns, without empty fields."""
        context["parts"] = list(self.parts(context["adminform"], context["original"]))
        return super().render_change_form(request, context, *args, **more)

    def parts(self, adminform: Any, item: Any) -> Iterator[tuple[Text, list[tuple[str, Text, str, Text]]]]:
        """Yield the title of each part of the page, and name, label, HTML and help of its fields that are not
        empty."""
        empty = (self.get_empty_value_display(), "")
        for fieldset in adminform:
            fields = [field for line in fieldset for field in line]
            shown = [
                (field.field["name"], field.field["label"], self.shown(field, item), field.field["help_text"])
                for field in fields
            ]
            if found := [row for row in shown if row[2] not in empty]:
                yield fieldset.name or "", found

    def shown(self, field: Any, item: Any) -> str:
        """Return the HTML of a read-only field; a time has its seconds, and how far it is from now."""
        value = getattr(item, field.field["name"], None)
        return rendering.moment(value) if isinstance(value, datetime) else str(field.contents())

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        item = super().get_object(request, object_id, from_field)
        if item is None:
            return None
        item.link = self.link_for(request)
        return prepare(request, item)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        # Only the app has progress and steps.
        (name, options), *rest = super().get_fieldsets(request, obj)
        shown = ["progress", "steps"] if apps.is_installed(FLOW) else []
        return [(name, {**options, "fields": [*options["fields"], *shown]}), *rest]

    @admin.display(description=_("progress"))
    def progress(self, item: Any) -> str:
        """Return a bar with what the handler has reported last."""
        # A message that has never run has none.
        if not item.attempts and not item.errors:
            return self.or_dash(None)
        for done, total, note, updated_at in call(item._state.db, PROGRESS, [item.pk]):
            text = f"{done:,g}" if total is None else f"{done:,g} / {total:,g}"
            bar = format_html('<progress value="{}" max="{}"></progress> ', done, total) if total else ""
            return format_html("{}{} {} ({})", bar, text, rendering.name(note), rendering.at(updated_at))
        return self.or_dash(None)

    @admin.display(description=_("steps"))
    def steps(self, item: Any) -> str:
        """Return a table of what the steps of the handler have kept, the end of long results cut off."""
        # An archived message has none, and a live one that has some is marked.
        mark = getattr(item, "flow", None if isinstance(item, ArchivedMessage) else 0)
        if mark is None or mark > 0:
            return self.or_dash(None)
        rows = [
            (kind, rendering.name(name), rendering.at(at), rendering.at(until) if until else "", result(item, value))
            for kind, name, value, until, at in call(item._state.db, STEPS, [item.pk])
        ]
        titles = [_("kind"), _("name"), _("kept at"), _("until"), _("result")]
        return rendering.table(titles, rows) if rows else self.or_dash(None)

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

    @admin.display(description=_("channel"))
    def channel_shown(self, item: Any) -> str:
        return self.link_to_channel(item.queue, item.channel)

    @admin.display(description=_("handler, channel"))
    def what(self, item: Any) -> str:
        return rendering.line(item.handler, self.channel_shown(item))

    @admin.display(description=_("payload"))
    def payload_shown(self, item: Any) -> str:
        return self.or_dash(json_shown(item, "payload"))

    headers_shown = column(_("headers"), lambda item: json_shown(item, "headers"))
    state_shown = column(_("saved state"), lambda item: value_html_or_none(item, item.state))
    body_shown = column(_("body"), rendering.body_preview)
    story = column(_("story"), lambda item: story.story(item, logs_html(item)))
    attempts_of = column(
        _("attempts"),
        lambda item: _("%(attempts)d of %(most)d") % {"attempts": item.attempts, "most": item.max_attempts},
    )

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


def json_shown(item: Any, column: str) -> str | None:
    """Return the column's JSON. JSON that Python cannot read, because it is too deep or has too long numbers, is shown
    as PostgreSQL writes it."""
    try:
        value = getattr(item, column)
        return None if value is None and column != "payload" else value_html(item, value)
    except (ValueError, RecursionError):
        row = type(item)._base_manager.using(item._state.db).filter(pk=item.pk)
        text = Left(Cast(column, TextField()), LONGEST_CHARACTERS)
        return rendering.pre(row.annotate(text=text).values_list("text", flat=True).get())


def prepare(request: HttpRequest, item: Any) -> Any:
    """Return the row with what this user may see: its loaded columns are decoded if the user has the permission."""
    item.is_decoded = request.user.has_perm(PERMISSION)
    if item.is_decoded:
        with suppress(*codecs.FAILURES):
            open_row(item, item._state.db)
    return item


def opened(item: Any, value: Any) -> Any:
    """Return the value decoded if the user may see it. Raises what a codec raises."""
    if codecs.is_sealed(value) and getattr(item, "is_decoded", False):
        return codecs.opened(value, place_of_row(item, item._state.db))
    return value


def value_html(item: Any, value: Any) -> str:
    """Return a JSON value as HTML."""
    try:
        value = opened(item, value)
    except codecs.FAILURES as error:
        return format_html('<p class="help">{}</p>', _("encrypted: %s") % error)
    if codecs.is_sealed(value):
        return format_html('<p class="help">{}</p>', _("encrypted by %s") % value[codecs.MARK])
    return rendering.pretty_json(value)


def logs_html(item: Any) -> list[tuple[int, str]]:
    """Return the attempt of each delivery, and what it has logged as HTML, the earliest first."""
    found: list[tuple[int, str]] = []
    if isinstance(item, Message) and not item.attempts and item.last_leased_at is None:
        return found  # it was never delivered
    for kept in logs_of(item.pk, using=item._state.db):
        log = kept.log
        with suppress(*codecs.FAILURES):
            log = opened(item, log)
        text = rendering.pre(log) if isinstance(log, str) else value_html(item, log)
        title = format_html("{}, {}", _("log of attempt %d") % kept.attempt, rendering.at(kept.written_at))
        found.append((kept.attempt, format_html("<details><summary>{}</summary>{}</details>", title, text)))
    return found


def result(item: Any, text: str | None) -> str:
    """Return the result of a step for a table, up to SHOWN_RESULT_CHARACTERS."""
    value = from_json(text)
    if codecs.is_sealed(value):
        return value_html(item, value)
    return rendering.name(Truncator(text or "").chars(SHOWN_RESULT_CHARACTERS))


def value_html_or_none(item: Any, value: Any) -> str | None:
    """Return what value_html() returns, or None for a value that is NULL."""
    return None if value is None else value_html(item, value)
