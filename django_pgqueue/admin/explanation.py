"""Show why a message or channel is not running: the answer of pgqueue_explain_message and pgqueue_explain_channel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import Link
from django_pgqueue.lifecycle.figures import Reason

# Codes of problems, of good states and of information. All other codes name limits that delay a message on purpose.
BAD = {"channel_missing", "dead", "lease_expired", "no_maintenance", "no_worker", "order_key_unreleased", "unknown",
       "worker_silent"}  # fmt: skip
GOOD = {"completed", "empty", "in_line"}
INFORMATION = {"arriving", "failed_before", "in_channel", "interrupted", "leased", "parked", "popped", "redriven",
               "released"}  # fmt: skip


def reasons_html(reasons: Iterable[Reason], link: Link) -> str:
    """Return the reasons as a list in HTML: for each a badge with its code, its sentence, and links to what it names.

    ``link``: makes a link to a page of the admin, as ``BaseAdmin.link`` does.
    """
    items = (
        (
            rendering.badge(reason.code.replace("_", " "), badge_kind(reason.code)),
            reason.sentence,
            format_html_join("", " {}", ((shown,) for shown in links_of(reason, link))),
        )
        for reason in reasons
    )
    return format_html('<ul class="pgqueue-reasons">{}</ul>', format_html_join("", "<li>{} <p>{}{}</p></li>", items))


def links_of(reason: Reason, link: Link) -> Iterator[str]:
    """Yield links to what a reason names: the message that holds others up, the shared limit, and the channels that
    hold its places."""
    # The fact ``message`` of an error is a text.
    if isinstance(message := reason.facts.get("message"), int):
        yield link(_("Message %s") % message, "message_change", message)
    if reason.code.startswith("shared_limit_"):
        limit = reason.facts["limit"]
        yield link(limit, "sharedlimit_changelist", q=limit)
    for holder in reason.facts.get("held_by") or ():
        if "queue" in holder:
            name = f"{holder['queue']}/{holder['channel']}"
            yield link(name, "channel_named", queue=holder["queue"], channel=holder["channel"])


def badge_kind(code: str) -> str:
    """Return the kind of badge of a code."""
    for name, codes in {"bad": BAD, "good": GOOD, "busy": INFORMATION}.items():
        if code in codes:
            return name
    return "late"
