"""Spread a redrive over time: each message is scheduled at a time of its own, at a rate per second.

The messages can be seen, rescheduled and cancelled like any other scheduled messages.
"""

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
        help_text=_("Messages per second; they are scheduled one after the other. Empty: all at once."),
    )


@dataclass(frozen=True, slots=True)
class Pace:
    """Hold a pace. ``rate``: messages per second; None: all at once. ``begun_at``: when the first is due, by the clock
    of the database. ``before``: how many messages earlier requests of the same redrive have scheduled."""

    rate: float | None
    begun_at: datetime
    before: int = 0

    @classmethod
    def asked(cls, request: HttpRequest, rate: float | None, *, using: str) -> Pace:
        """Read from the form how far a redrive is; begin now, by the database's clock, if it says nothing or nonsense.

        ``rate`` is in messages per second; None means no limit.
        """
        try:
            begun_at = parse_datetime(request.POST.get("begun_at", ""))
        except ValueError:
            begun_at = None
        before = request.POST.get("before", "")
        if begun_at is None or timezone.is_naive(begun_at) or not before.isdecimal():
            return cls(rate, call(using, "SELECT clock_timestamp()")[0][0])
        return cls(rate, begun_at, int(before))

    def times(self, done: int, count: int) -> list[datetime] | None:
        """Return when the next ``count`` messages are due. ``done``: the number of messages before them in this
        request."""
        if not self.rate:
            return None
        first = self.before + done
        return [self.begun_at + timedelta(seconds=(first + n) / self.rate) for n in range(count)]

    def hidden(self, done: int) -> list[tuple[str, str]]:
        """Return the hidden fields that the next request needs."""
        return [("begun_at", self.begun_at.isoformat()), ("before", str(self.before + done))] if self.rate else []
