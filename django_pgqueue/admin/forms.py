"""Check what users edit, with errors in the form's words, before the table's constraints refuse it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.forms import ValidationError
from django.utils.translation import gettext_lazy as _

from django_pgqueue import handlers
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json
from django_pgqueue.limits import Rate, parse_rate
from django_pgqueue.models import Channel
from django_pgqueue.signatures import HANDLER_NAME_CHARACTERS
from django_pgqueue.sql.call import alias

NO_OBJECT = _('Give a JSON object, such as {"tenant": "acme"}.')


def rate_of(text: str) -> Rate:
    """Return the rate that a user has typed. Raises ValidationError."""
    try:
        return parse_rate(text)
    except InvalidMessage as error:
        raise ValidationError(str(error)) from error


class IntervalField(forms.DurationField):
    """Take the time of one delivery, or a rate such as 10/m."""

    def to_python(self, value: Any) -> Any:
        if not isinstance(value, str) or "/" not in value:
            return super().to_python(value)
        rate = rate_of(value)
        if rate.burst > 1:
            raise ValidationError(_("Give the burst in its own field."))
        return rate.interval


class RateField(forms.FloatField):
    """Take a number per second, or a rate such as 10/m. The value is the number per second."""

    widget = forms.TextInput

    def to_python(self, value: Any) -> Any:
        if not isinstance(value, str) or "/" not in value:
            return super().to_python(value)
        rate = rate_of(value)
        if rate.burst > 1:
            raise ValidationError(_("Leave the burst out."))
        return 1 / rate.interval.total_seconds()


class LimitForm(forms.ModelForm):
    """Check the limits of a channel, of a queue, or a shared one."""

    release_interval = IntervalField(
        required=False, help_text=_("A rate, such as 10/m, or the time of one delivery, such as 0:00:06.")
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("max_concurrency", "max_size", "max_cost", "release_burst", "weight"):
            if field := self.fields.get(name):
                # Replaces the model field's validator, which allows 0.
                field.validators = [v for v in field.validators if not isinstance(v, MinValueValidator)]
                field.validators.append(MinValueValidator(1))
                field.widget.attrs["min"] = 1

    def clean_release_interval(self) -> Any:
        interval = self.cleaned_data["release_interval"]
        if interval is not None and interval.total_seconds() <= 0:
            raise ValidationError(_("Give a time longer than zero, or leave it empty for no limit."))
        return interval


class QueueForm(LimitForm):
    def clean_max_share(self) -> Any:
        share = self.cleaned_data["max_share"]
        if share is not None and not 0 < share <= 1:
            raise ValidationError(_("Give a part above 0 and up to 1, such as 0.75, or leave it empty."))
        return share


class ChannelForm(LimitForm):
    """Check the limits of a channel, and its context."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if context := self.fields.get("context"):
            # Changes are found by comparing with the channel, not with a hidden field of the page.
            context.show_hidden_initial = False
        if weight := self.fields.get("weight"):
            weight.validators.append(MaxValueValidator(1000))
            weight.widget.attrs["max"] = 1000

    def clean(self) -> dict[str, Any] | None:
        """Give an ordered channel its max_concurrency of 1, when the field is empty."""
        cleaned = super().clean()
        if self.cleaned_data.get("ordered") and self.cleaned_data.get("max_concurrency") is None:
            self.cleaned_data["max_concurrency"] = 1
        return cleaned

    def clean_context(self) -> dict[str, Any]:
        context = self.cleaned_data["context"]
        if context is None:
            return {}
        if not isinstance(context, dict):
            raise ValidationError(NO_OBJECT)
        try:
            to_json(context, "context")
        except InvalidMessage as error:
            raise ValidationError(str(error)) from error
        return context


class SharedLimitForm(LimitForm):
    handlers = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("One name a line. All messages of these handlers have the limit, however they were enqueued."),
    )

    def clean_handlers(self) -> str:
        names = [line.strip() for line in self.cleaned_data["handlers"].splitlines() if line.strip()]
        if any(len(name) > HANDLER_NAME_CHARACTERS for name in names):
            raise ValidationError(_("The name of a handler has %d characters at most.") % HANDLER_NAME_CHARACTERS)
        return "\n".join(sorted(set(names)))


class ScheduleForm(forms.ModelForm):
    """Refuse what would fail at a tick: a handler that is not registered, a channel that does not exist."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in {"payload", "headers"} & self.fields.keys():
            self.fields[name].widget.attrs["rows"] = 4

    def clean_handler(self) -> str:
        name: str = self.cleaned_data["handler"]
        if "handler" in self.changed_data and handlers.find(name) is None:
            known = ", ".join(handlers.names()) or _("none")
            raise ValidationError(_("No handler has this name. The registered handlers are: %s") % known)
        return name

    def clean_headers(self) -> Any:
        headers = self.cleaned_data["headers"]
        if headers is not None and not isinstance(headers, dict):
            raise ValidationError(NO_OBJECT)
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
