"""Do actions on many messages: a page that says what will happen, then batches, history entries, and a report.

Each batch and its history entries are one transaction, so the report and the history agree with the data.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_pgqueue.admin.actions import ObjectActionsAdmin
from django_pgqueue.admin.base import Text, user_of
from django_pgqueue.admin.confirmation import SHOWN_ROWS, Question, confirm, is_confirmed, shown_count
from django_pgqueue.admin.content import ContentAdmin
from django_pgqueue.exceptions import PgQueueError

BATCH_ROWS = 1_000
MOST_ROWS = 100_000
"""The most rows that one page confirms."""
REQUEST_SECONDS = 15.0
"""After this time a request finishes its batch, and the page asks whether to go on. A web server often ends a request
after 30 s."""
LOGGED_ROWS = 1_000
"""Up to this many objects, each gets its own history entry; above it, each batch gets one."""

Run = Callable[[list[int], Mapping[str, Any], str], Mapping[int, str]]


@dataclass(frozen=True, slots=True)
class Action(Question):
    """Define an action on many messages.

    ``run``: takes ids, the form's values and the database, and returns an outcome for each id. ``done``: the outcomes
    that changed something, the usual one first, as texts with a count; ``left``: those that changed nothing.
    ``logged``: makes the history's text from the form's values. ``note``: what the page says beside a row.
    ``carried``: returns hidden fields that a request hands to the one that goes on with its rest.
    """

    run: Run
    done: Mapping[str, Any]
    left: Mapping[str, Any]
    logged: Callable[[Mapping[str, Any]], str]
    form: Callable[..., forms.Form] | None = None
    flag: int = CHANGE
    note: Callable[[Any], str] = lambda row: ""
    carried: Callable[[], list[tuple[str, str]]] = list


class BulkActionsAdmin(ObjectActionsAdmin, ContentAdmin):
    """Show messages, with actions on many of them."""

    named_by: tuple[str, ...] = ("id", "handler")
    """The columns that the text of a row needs."""

    def perform(self, request: HttpRequest, queryset: QuerySet[Any], act: Action) -> HttpResponse | None:
        """Do the action if it is confirmed, and else show the page that asks. Returns None when it is done."""
        form = act.form(request.POST if is_confirmed(request) else None) if act.form else None
        if not is_confirmed(request) or (form and not form.is_valid()):
            return self.ask(request, queryset, act, form)
        after = request.POST.get("after", "")
        if after.isdecimal():
            queryset = queryset.filter(pk__gt=int(after))
        # The rows are fixed now: rows that arrive later were not confirmed, and would keep this request running.
        shown = shown_count(request)
        most = MOST_ROWS if shown is None else min(shown, MOST_ROWS)
        ids = list(queryset.order_by("id").values_list("id", flat=True)[: most + 1])
        ids, more_match = ids[:most], len(ids) > most
        counts, done, until = Counter[str](), 0, time.monotonic() + REQUEST_SECONDS
        while done < len(ids) and (not done or time.monotonic() < until):
            batch = ids[done : done + BATCH_ROWS]
            counts += self.run_batch(request, act, batch, form, each=len(ids) <= LOGGED_ROWS, using=queryset.db)
            done += len(batch)
        self.show_outcomes(request, act, counts)
        self.tell_of_others(request, 0 if shown is None else max(0, most - len(ids)), more_match)
        if done == len(ids):
            return None
        rest = queryset.filter(pk__gt=ids[done - 1])
        more = replace(act, title=_("%s: there are more") % act.title, button=_("Go on"))
        hidden = [("after", str(ids[done - 1])), *act.carried()]
        return self.ask(request, rest, more, form, most=len(ids) - done, hidden=hidden)

    def ask(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        act: Action,
        form: forms.Form | None,
        *,
        most: int = MOST_ROWS,
        hidden: Sequence[tuple[str, str]] = (),
    ) -> HttpResponse:
        """Return the page that asks for a confirmation."""
        # They are loaded at once, because they could be gone a moment later.
        named = queryset.order_by("id").prefetch_related(None).only(*self.named_by)[:SHOWN_ROWS]
        rows = [(str(row), act.note(row)) for row in named]
        groups = self.groups(queryset, most)
        return confirm(self, request, queryset, act, rows=rows, groups=groups, form=form, most=most, hidden=hidden)

    def groups(self, queryset: QuerySet[Any], most: int) -> str:
        """Return a table of the first ``most`` rows by kind, as HTML; empty if there are no kinds."""
        return ""

    def run_batch(
        self, request: HttpRequest, act: Action, ids: list[int], form: forms.Form | None, *, each: bool, using: str
    ) -> Counter[str]:
        """Do the action on a batch and log it, in one transaction. An error of the queue is shown to the user."""
        cleaned = form.cleaned_data if form else {}
        found = self.model.objects.using(using).only(*self.named_by).in_bulk(ids)
        try:
            with transaction.atomic(using=using):
                outcomes = act.run(ids, cleaned, using)
                changed = [found[pk] for pk in ids if outcomes.get(pk) in act.done and pk in found]
                self.log_batch(request, changed, act.logged(cleaned), each=each, flag=act.flag)
        except PgQueueError as error:
            self.message_user(request, str(error), messages.ERROR)
            return Counter()
        return Counter(outcomes.values())

    def log_batch(self, request: HttpRequest, objects: list[Model], text: str, *, each: bool, flag: int) -> None:
        """Write a history entry for each object, or one for the batch, which names its first and last object."""
        if each or len(objects) <= 1:
            self.log(request, objects, text, flag=flag)
            return
        values = {"count": len(objects), "name": self.opts.verbose_name_plural}
        values |= {"first": objects[0].pk, "last": objects[-1].pk}
        LogEntry.objects.create(
            user_id=user_of(request).pk,
            content_type=ContentType.objects.get_for_model(self.model, for_concrete_model=False),
            object_repr=(_("%(count)d %(name)s, %(first)d to %(last)d") % values)[:200],
            action_flag=flag,
            change_message=text,
        )

    def show_outcomes(self, request: HttpRequest, act: Action, counts: Counter[str]) -> None:
        """Show how many messages had each outcome."""
        usual = next(iter(act.done))
        for outcome, text in act.done.items():
            if counts[outcome] or (outcome == usual and not any(counts[word] for word in act.done)):
                self.show_count(request, text, counts[outcome])
        for outcome, text in act.left.items():
            if counts[outcome]:
                self.message_user(request, text % counts[outcome], messages.WARNING)

    def tell_of_others(self, request: HttpRequest, gone: int, more_match: bool) -> None:
        """Show how many rows of the page no longer match, and whether more rows match than were on it."""
        if gone:
            text = ngettext(
                "%d of the rows on the page no longer matches.", "%d of the rows on the page no longer match.", gone
            )
            self.message_user(request, text % gone, messages.WARNING)
        if more_match:
            text = _("More rows match, which were not on the page. They are unchanged; repeat the action for them.")
            self.message_user(request, text, messages.WARNING)


def bulk(act: Action, description: Text, permission: str, **only: Any) -> Callable[..., HttpResponse | None]:
    """Return the admin action, a method of a BulkActionsAdmin. ``only``: the rows that it takes among the selected."""

    @admin.action(description=description, permissions=[permission])
    def method(self: BulkActionsAdmin, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self.perform(request, queryset.filter(**only), act)

    return method
