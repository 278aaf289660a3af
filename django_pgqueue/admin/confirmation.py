"""The page between choosing an action and its effect. The second POST carries the same selection and ``confirmed``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin.base import BaseAdmin
from django_pgqueue.admin.paginator import capped_count

SHOWN = 20
COUNTED = 10_000


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=_("Reason"),
        max_length=500,
        widget=forms.TextInput(attrs={"class": "vTextField", "autofocus": True}),
        help_text=_("Shown to everybody who wonders why nothing is delivered."),
    )


class OptionalReasonForm(ReasonForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["reason"].required = False
        self.fields["reason"].help_text = _("Kept in the archive.")


def is_confirmed(request: HttpRequest) -> bool:
    return request.method == "POST" and request.POST.get("confirmed") == "yes"


def confirm(
    model_admin: BaseAdmin,
    request: HttpRequest,
    queryset: QuerySet[Any],
    *,
    action: str,
    title: str,
    consequence: str,
    button: str,
    rows: Sequence[tuple[str, str]] | None = None,
    form: forms.Form | None = None,
) -> TemplateResponse:
    """``consequence``: what will happen, in words. ``rows``: what it happens to, text and note."""
    if rows is None:
        rows = [(str(item), "") for item in queryset[:SHOWN]]
    count = capped_count(queryset, COUNTED)
    context = {
        **model_admin.admin_site.each_context(request),
        "title": title,
        "consequence": consequence,
        "button": button,
        "rows": rows,
        "more": count > len(rows),
        "count": count,
        "form": form,
        "opts": model_admin.opts,
        "media": model_admin.media,
        "back": request.get_full_path(),
        "hidden": [
            ("action", action),
            ("select_across", request.POST.get("select_across", "0")),
            ("confirmed", "yes"),
            *((ACTION_CHECKBOX_NAME, value) for value in request.POST.getlist(ACTION_CHECKBOX_NAME)),
        ],
    }
    request.current_app = model_admin.admin_site.name
    return TemplateResponse(request, "admin/pgqueue/confirm_action.html", context)
