"""Change the payload of one message or dead letter, with a form in place of the confirmation page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import QuerySet
from django.forms.fields import InvalidJSONInput
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from django_pgqueue import codecs
from django_pgqueue.admin import content
from django_pgqueue.admin.base import BaseAdmin, Text
from django_pgqueue.admin.confirmation import Question, confirm, is_confirmed
from django_pgqueue.exceptions import PgQueueError


@dataclass(frozen=True, slots=True)
class PayloadAction(Question):
    """Define such an action. ``run``: takes id, payload and database; returns whether it was done, and the text for the
    user."""

    run: Callable[[int, Any, str], tuple[bool, Text]]


class PrettyJSONField(forms.JSONField):
    def prepare_value(self, value: Any) -> str:
        # Input that is not JSON is shown again unchanged.
        if isinstance(value, InvalidJSONInput):
            return value
        return json.dumps(value, indent=2, ensure_ascii=False)


class PayloadForm(forms.Form):
    payload = PrettyJSONField(
        label=_("Payload"),
        required=False,
        widget=forms.Textarea(attrs={"class": "vLargeTextField pgqueue-code", "rows": 12, "spellcheck": "false"}),
        help_text=_("JSON."),
    )

    def clean_payload(self) -> Any:
        # An empty field is None, and so is the JSON null: only one of them was meant.
        if not self.data.get("payload", "").strip():
            raise forms.ValidationError(_("Give JSON, or null if the handler is to get null."))
        return self.cleaned_data["payload"]


def edit_payload(
    model_admin: BaseAdmin, request: HttpRequest, queryset: QuerySet[Any], act: PayloadAction
) -> HttpResponse | None:
    """Show the form, or do the action with its payload. Returns None when it is done or impossible."""
    found = list(queryset.order_by("id")[:2])
    if len(found) != 1:
        model_admin.message_user(request, _("Select one row: a payload is edited alone."), messages.WARNING)
        return None
    [item] = found
    problem: Text = ""
    initial = {}
    try:
        initial = {"payload": content.opened(content.prepare(request, item), item.payload)}
    except type(item).DoesNotExist:
        model_admin.message_user(request, _("The message no longer exists."), messages.WARNING)
        return None
    except codecs.FAILURES as error:
        problem = _("The payload cannot be decoded: %s") % error
    except (ValueError, RecursionError):
        problem = _("Python cannot read this payload: it has too long numbers, or is nested too deep.")
    if codecs.is_sealed(initial.get("payload")):
        problem = _("The payload is encrypted: to edit it, you need the permission to see decrypted payloads.")
    if problem:
        model_admin.message_user(request, problem, messages.ERROR)
        return None
    form = PayloadForm(request.POST if is_confirmed(request) else None, initial=initial)
    if not form.is_valid():
        return confirm(model_admin, request, queryset, act, form=form)
    text: Text
    try:
        with transaction.atomic(using=queryset.db):
            done, text = act.run(item.pk, form.cleaned_data["payload"], queryset.db)
            if done:
                # The history gets neither payload, because payloads may hold private data.
                model_admin.log(request, [item], text)
    except PgQueueError as error:
        done, text = False, str(error)
    model_admin.message_user(request, text, messages.SUCCESS if done else messages.ERROR)
    return None
