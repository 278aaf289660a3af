"""Show why a message or channel is not running: the answer of pgqueue_explain_message and pgqueue_explain_channel."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.html import format_html, format_html_join

from django_pgqueue.admin import rendering
from django_pgqueue.lifecycle.explain import Reason

# Codes of problems, of good states and of information. All other codes name limits that delay a message on purpose.
BAD = {"channel_missing", "dead", "lease_expired", "no_maintenance", "no_worker", "order_key_unreleased", "unknown",
       "worker_silent"}  # fmt: skip
GOOD = {"completed", "empty", "in_line"}
INFORMATION = {"arriving", "failed_before", "in_channel", "leased", "popped", "redriven", "released"}


def reasons_html(reasons: Iterable[Reason]) -> str:
    """Return the reasons as a list in HTML: for each a badge with its code, and its sentence."""
    items = (
        (rendering.badge(reason.code.replace("_", " "), badge_kind(reason.code)), reason.sentence) for reason in reasons
    )
    return format_html('<ul class="pgqueue-reasons">{}</ul>', format_html_join("", "<li>{} <p>{}</p></li>", items))


def badge_kind(code: str) -> str:
    """Return the kind of badge of a code."""
    for name, codes in {"bad": BAD, "good": GOOD, "busy": INFORMATION}.items():
        if code in codes:
            return name
    return "late"
