"""Check a shared limit in its form."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.validators import MinValueValidator
from django.utils.translation import gettext_lazy as _

from django_pgqueue.signatures import HANDLER_NAME_CHARACTERS


class SharedLimitForm(forms.ModelForm):
    """Check a limit with errors in the form's words, before the SQL function refuses it."""

    handlers = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("One name a line. All messages of these handlers have the limit, however they were enqueued."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("max_concurrency", "max_cost", "release_burst"):
            if field := self.fields.get(name):
                # Replaces the model field's validator, which allows 0.
                field.validators = [v for v in field.validators if not isinstance(v, MinValueValidator)]
                field.validators.append(MinValueValidator(1))
                field.widget.attrs["min"] = 1

    def clean_release_interval(self) -> Any:
        interval = self.cleaned_data["release_interval"]
        if interval is not None and interval.total_seconds() <= 0:
            raise forms.ValidationError(_("Give a time longer than zero, or leave it empty for no limit."))
        return interval

    def clean_handlers(self) -> str:
        names = [line.strip() for line in self.cleaned_data["handlers"].splitlines() if line.strip()]
        if any(len(name) > HANDLER_NAME_CHARACTERS for name in names):
            raise forms.ValidationError(_("The name of a handler has %d characters at most.") % HANDLER_NAME_CHARACTERS)
        return "\n".join(sorted(set(names)))
