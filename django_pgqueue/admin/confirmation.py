"""Show the page between choosing an action and its effect. Its POST carries the same selection and ``confirmed``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin.base import BaseAdmin, CappedCount, Text, breadcrumbs, capped_count

SHOWN_ROWS = 10
DESTRUCTIVE = {"cancel", "discard", "delete_dead", "purge", "erase"}
"""The actions whose buttons are red."""
COUNTED = 100_000
"""The most rows that the page counts, and that the action changes."""


class ReasonForm(forms.Form):
    """Ask for a reason."""

    reason = forms.CharField(
        label=_("Reason"),
        max_length=500,
        widget=forms.TextInput(attrs={"class": "vTextField", "autofocus": True}),
        help_text=_("Shown in the admin, by pgqueue explain and by pgqueue doctor."),
    )


class PauseForm(ReasonForm):
    """Ask for a reason, and for how long to pause."""

    minutes = forms.IntegerField(
        label=_("Resume after"),
        required=False,
        min_value=1,
        max_value=525_600,
        help_text=_("Minutes, after which the sweep ends the pause. Empty: the pause lasts until you resume."),
    )


class OptionalReasonForm(ReasonForm):
    """Ask for a reason that may be empty. ``kept``: where it is kept."""

    def __init__(self, *args: Any, kept: Text, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].required = False
        self.fields["reason"].help_text = kept


def is_confirmed(request: HttpRequest) -> bool:
    """Return whether the request comes from the page's button."""
    return request.method == "POST" and request.POST.get("confirmed") == "yes"


def shown_count(request: HttpRequest) -> int | None:
    """Return how many rows the page has shown; None if the request does not come from it."""
    shown = request.POST.get("shown", "")
    return int(shown) if shown.isascii() and shown.isdecimal() and len(shown) < 10 else None


@dataclass(frozen=True, slots=True)
class Question:
    """Hold what the page asks before the action ``name``. ``consequence``: a sentence that says what will happen."""

    name: str
    title: Text
    consequence: Text
    button: Text


def confirm(
    model_admin: BaseAdmin,
    request: HttpRequest,
    queryset: QuerySet[Any],
    question: Question,
    *,
    rows: Sequence[tuple[str, str]] | None = None,
    groups: Text = "",
    form: forms.Form | None = None,
    most: int = COUNTED,
    hidden: Sequence[tuple[str, str]] = (),
) -> TemplateResponse:
    """Return the page that asks for a confirmation.

    ``rows``: the objects, as text and note. ``groups``: a table of all of them by kind. ``most``: the most rows that
    are counted and changed.
    """
    if rows is None:
        rows = [(str(item), "") for item in queryset[:SHOWN_ROWS]]
    count = capped_count(queryset, COUNTED)
    beyond = isinstance(count, CappedCount) and most == COUNTED
    count = min(count, most)
    back = request.get_full_path()
    hidden = [
        ("action", question.name),
        ("select_across", request.POST.get("select_across", "0")),
        ("confirmed", "yes"),
        ("shown", str(int(count))),
        *hidden,
        *((ACTION_CHECKBOX_NAME, value) for value in request.POST.getlist(ACTION_CHECKBOX_NAME)),
    ]
    return model_admin.page(
        request,
        "confirm_action",
        breadcrumbs((back, capfirst(str(model_admin.opts.verbose_name_plural)))),
        title=question.title,
        consequence=question.consequence,
        button=question.button,
        destructive=question.name in DESTRUCTIVE,
        rows=rows,
        groups=groups,
        more=count > len(rows),
        count=f"{count:,}",
        one=count == 1,
        beyond=beyond,
        form=form,
        back=back,
        hidden=hidden,
    )
