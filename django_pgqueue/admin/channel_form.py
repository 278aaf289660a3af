"""Check the limits of a channel, or of a whole queue, in its form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils.translation import gettext_lazy as _

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json

if TYPE_CHECKING:
    pass


class LimitForm(forms.ModelForm):
    """Check limits with errors in the form's words, before the table's constraints refuse them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("max_concurrency", "max_size", "release_burst", "weight"):
            if field := self.fields.get(name):
                # Replaces the model field's validator, which allows 0.
                field.validators = [v for v in field.validators if not isinstance(v, MinValueValidator)]
                field.validators.append(MinValueValidator(1))
                field.widget.attrs["min"] = 1

    def clean(self) -> dict[str, Any] | None:
        """Give an ordered channel its max_concurrency of 1, when the field is empty."""
        cleaned = super().clean()
        if self.cleaned_data.get("ordered") and self.cleaned_data.get("max_concurrency") is None:
            self.cleaned_data["max_concurrency"] = 1
        return cleaned

    def clean_release_interval(self) -> Any:
        interval = self.cleaned_data["release_interval"]
        if interval is not None and interval.total_seconds() <= 0:
            raise forms.ValidationError(_("Give a time longer than zero, or leave it empty for no limit."))
        return interval


class QueueForm(LimitForm):
    """Check the limits of a whole queue."""

    def clean_max_share(self) -> Any:
        share = self.cleaned_data["max_share"]
        if share is not None and not 0 < share <= 1:
            raise forms.ValidationError(_("Give a part above 0 and up to 1, such as 0.75, or leave it empty."))
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

    def clean_context(self) -> dict[str, Any]:
        context = self.cleaned_data["context"]
        if context is None:
            return {}
        if not isinstance(context, dict):
            raise forms.ValidationError(_('Give a JSON object, such as {"tenant": "acme"}.'))
        try:
            to_json(context, "context")
        except InvalidMessage as error:
            raise forms.ValidationError(str(error)) from error
        return context
