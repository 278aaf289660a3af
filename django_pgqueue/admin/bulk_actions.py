"""Acts on many messages: a page that says what will happen to how many, then batches, a history, and what became of
them. Each batch is a transaction: whatever happens, what was told is what was done."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_pgqueue.admin.base import user_of
from django_pgqueue.admin.confirmation import SHOWN, confirm, is_confirmed, shown_count
from django_pgqueue.admin.content import ContentAdmin
from django_pgqueue.admin.object_actions import ObjectActionsAdmin
from django_pgqueue.exceptions import PgQueueError

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

BATCH = 1_000
MOST = 100_000
"""Confirmed by one page."""
SECONDS = 15.0
"""A request takes no longer, but for the batch that it is at; then the page asks whether to go on. A web server often
ends a request after 30."""
EACH = 1_000
"""So many have an entry in the history of each; of more, each batch has one."""

Run = Callable[[list[int], Mapping[str, Any], str], Mapping[int, str]]


@dataclass(frozen=True, slots=True)
class Action:
    """``run``: ids, what the form says and the database; returns an outcome for each id. ``done``: the outcomes that
    changed something, the usual one first, as texts with a count; ``left``: those that did not. ``logged``: for the
    history, from what the form says."""

    name: str
    title: StrOrPromise
    consequence: StrOrPromise
    button: StrOrPromise
    run: Run
    done: Mapping[str, Any]
    left: Mapping[str, Any]
    logged: Callable[[Mapping[str, Any]], str]
    form: type[forms.Form] | None = None
    flag: int = CHANGE


class BulkActionsAdmin(ObjectActionsAdmin, ContentAdmin):
    named_by: tuple[str, ...] = ("id", "handler")
    """The columns of the text of a row."""

    def perform(self, request: HttpRequest, queryset: QuerySet[Any], act: Action) -> HttpResponse | None:
        form = act.form(request.POST if is_confirmed(request) else None) if act.form else None
        if not is_confirmed(request) or (form and not form.is_valid()):
            return self.ask(request, queryset, act, form)
        after = request.POST.get("after", "")
        if after.isdecimal():
            queryset = queryset.filter(pk__gt=int(after))
        chosen = choose(request, queryset, "id")
        ids, became, done, until = chosen.rows, Counter[str](), 0, time.monotonic() + SECONDS
        while done < len(ids) and (not done or time.monotonic() < until):
            batch = ids[done : done + BATCH]
            became += self.run_batch(request, act, batch, form, each=len(ids) <= EACH, using=queryset.db)
            done += len(batch)
        self.tell_what_became(request, act, became)
        self.tell_of_others(request, chosen)
        if done < len(ids):
            rest = queryset.filter(pk__gt=ids[done - 1])
            return self.ask(request, rest, act, form, most=len(ids) - done, after=ids[done - 1])
        return None

    def ask(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        act: Action,
        form: forms.Form | None,
        *,
        most: int = MOST,
        after: int | None = None,
    ) -> HttpResponse:
        rows = [(str(item), "") for item in self.named(queryset)]
        return confirm(
            self,
            request,
            queryset,
            action=act.name,
            title=act.title if after is None else _("%s: there are more") % act.title,
            consequence=act.consequence,
            button=act.button if after is None else _("Go on"),
            rows=rows,
            groups=self.groups(queryset, most),
            form=form,
            most=most,
            hidden=[] if after is None else [("after", str(after))],
        )

    def groups(self, queryset: QuerySet[Any], most: int) -> str:
        """A table of the first ``most`` rows by kind, as HTML; empty where there are no kinds."""
        return ""

    def named(self, queryset: QuerySet[Any]) -> list[Any]:
        """The first ones, with what their text needs: what else were fetched one by one could be gone by then."""
        return list(queryset.order_by("id").prefetch_related(None).only(*self.named_by)[:SHOWN])

    def run_batch(
        self, request: HttpRequest, act: Action, ids: list[int], form: forms.Form | None, *, each: bool, using: str
    ) -> Counter[str]:
        """Done and logged, both or neither. What the database refuses is told."""
        cleaned = form.cleaned_data if form else {}
        found = self.model.objects.using(using).only(*self.named_by).in_bulk(ids)
        try:
            with transaction.atomic(using=using):
                became = act.run(ids, cleaned, using)
                changed = [found[pk] for pk in ids if became.get(pk) in act.done and pk in found]
                self.log_batch(request, changed, act.logged(cleaned), each=each, flag=act.flag)
        except PgQueueError as error:
            self.message_user(request, str(error), messages.ERROR)
            return Counter()
        return Counter(became.values())

    def log_batch(
        self, request: HttpRequest, objects: list[Model], text: StrOrPromise, *, each: bool, flag: int = CHANGE
    ) -> None:
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
            change_message=str(text),
        )

    def tell_what_became(self, request: HttpRequest, act: Action, became: Counter[str]) -> None:
        usual = next(iter(act.done))
        for outcome, text in act.done.items():
            if became[outcome] or (outcome == usual and not any(became[word] for word in act.done)):
                self.tell(request, text, became[outcome])
        for outcome, text in act.left.items():
            if became[outcome]:
                self.message_user(request, text % became[outcome], messages.WARNING)

    def tell_of_others(self, request: HttpRequest, chosen: Chosen) -> None:
        if chosen.gone:
            text = ngettext(
                "%d of those on the page is not there any more.",
                "%d of those on the page are not there any more.",
                chosen.gone,
            )
            self.message_user(request, text % chosen.gone, messages.WARNING)
        if chosen.more:
            text = _("There are more that match: they were not on the page, and are left alone. Do it again for them.")
            self.message_user(request, text, messages.WARNING)


@dataclass(frozen=True, slots=True)
class Chosen:
    """``more``: others match now, too. ``gone``: how many that the page showed do not any more."""

    rows: list[Any]
    more: bool
    gone: int


def choose(request: HttpRequest, queryset: QuerySet[Any], *columns: str) -> Chosen:
    """No more rows than the page showed, in the order of ``columns``; of one column the values, of several tuples.

    Which ones is decided now: what comes from here on was not confirmed, and would keep this request going.
    """
    shown = shown_count(request)
    most = MOST if shown is None else min(shown, MOST)
    found = list(queryset.order_by(*columns).values_list(*columns, flat=len(columns) == 1)[: most + 1])
    return Chosen(found[:most], len(found) > most, 0 if shown is None else max(0, most - len(found)))
