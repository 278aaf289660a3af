"""Check a schedule before it is saved."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from django_pgqueue import handlers
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.models import Channel


class ScheduleForm(forms.ModelForm):
    """Refuse what would fail at a tick: a handler that is not registered, a channel that does not exist."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("payload", "headers"):
            if field := self.fields.get(name):
                field.widget.attrs["rows"] = 4

    def clean_handler(self) -> str:
        name: str = self.cleaned_data["handler"]
        if "handler" in self.changed_data and handlers.find(name) is None:
            known = ", ".join(handlers.names()) or _("none")
            raise ValidationError(_("No handler has this name. The registered handlers are: %s") % known)
        return name

    def clean_headers(self) -> Any:
        headers = self.cleaned_data["headers"]
        if headers is not None and not isinstance(headers, dict):
            raise ValidationError(_('Give a JSON object, such as {"tenant": "acme"}.'))
        return headers

    def clean_priority(self) -> int:
        priority: int = self.cleaned_data["priority"]
        if priority < -32_767:
            raise ValidationError(_("Give a number from -32767 to 32767."))
        return priority

    def clean_grace(self) -> Any:
        grace = self.cleaned_data["grace"]
        if grace is not None and grace.total_seconds() < 0:
            raise ValidationError(_("Give a time that is not negative."))
        return grace

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        queue, channel = cleaned.get("queue"), cleaned.get("channel")
        if {"queue", "channel"} & set(self.changed_data) and queue and channel:
            known = Channel.objects.using(alias(None)).filter(queue=queue, name=channel, released_at=None)
            if not known.exists():
                self.add_error("channel", _("The queue %s has no open channel of this name.") % queue)
        return cleaned
