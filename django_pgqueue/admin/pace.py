"""A redrive that does not flood: each message gets a time of its own, so many a second. Nobody has to stay and watch:
they are scheduled, and can be seen, put off and cancelled as any others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django import forms
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

from django_pgqueue.sql.call import call


class RateForm(forms.Form):
    rate = forms.FloatField(
        label=_("Rate"),
        required=False,
        min_value=0.001,
        max_value=100_000,
        help_text=_("Messages a second: they are scheduled one after the other. Empty: all at once."),
    )


@dataclass(frozen=True, slots=True)
class Pace:
    """``rate``: a second; None: all at once. ``begun_at``: when the first is due, by the clock of the database.
    ``before``: how many were paced by the requests that this one goes on with."""

    rate: float | None
    begun_at: datetime
    before: int = 0

    @classmethod
    def asked(cls, request: HttpRequest, rate: float | None, *, using: str) -> Pace:
        try:
            begun_at = parse_datetime(request.POST.get("begun_at", ""))
        except ValueError:
            begun_at = None
        before = request.POST.get("before", "")
        if begun_at is None or timezone.is_naive(begun_at) or not before.isdecimal():
            return cls(rate, call(using, "SELECT clock_timestamp()")[0][0])
        return cls(rate, begun_at, int(before))

    def times(self, done: int, count: int) -> list[datetime] | None:
        """For the next ones, of which there were ``done`` before in this request."""
        if not self.rate:
            return None
        first = self.before + done
        return [self.begun_at + timedelta(seconds=(first + n) / self.rate) for n in range(count)]

    def hidden(self, done: int) -> list[tuple[str, str]]:
        """What the next request has to know."""
        return [("begun_at", self.begun_at.isoformat()), ("before", str(self.before + done))] if self.rate else []
