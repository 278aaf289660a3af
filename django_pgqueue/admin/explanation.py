"""Why is it not running? The answer of pgqueue_explain_message and pgqueue_explain_channel, on the page of either."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.html import format_html, format_html_join

from django_pgqueue.admin import rendering
from django_pgqueue.lifecycle.explain import Reason

# What a person should look at, what is as it should be, and what is only told. The rest holds a message up on purpose.
BAD = {"channel_missing", "dead", "lease_expired", "no_maintenance", "no_worker", "unknown", "worker_silent"}
GOOD = {"completed", "empty", "in_line"}
TOLD = {"arriving", "failed_before", "in_channel", "leased", "popped", "redriven", "released"}


def shown(reasons: Iterable[Reason]) -> str:
    items = ((rendering.badge(reason.code.replace("_", " "), kind(reason.code)), reason.sentence) for reason in reasons)
    return format_html('<ul class="pgqueue-reasons">{}</ul>', format_html_join("", "<li>{} <p>{}</p></li>", items))


def kind(code: str) -> str:
    for name, codes in {"bad": BAD, "good": GOOD, "busy": TOLD}.items():
        if code in codes:
            return name
    return "late"
