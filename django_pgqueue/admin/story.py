"""Show one message's story, the newest step first: its outcome or holder, each failed attempt, and its enqueue; and
read its history: the dead letters that it comes from, and the messages that follow it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _

from django_pgqueue.admin import rendering
from django_pgqueue.conf import settings
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from django_pgqueue.sql.call import call

KINDS: dict[Any, str] = {
    ArchivedMessage.ArchiveOutcome.COMPLETED: "good",
    ArchivedMessage.ArchiveOutcome.POPPED: "busy",
    ArchivedMessage.ArchiveOutcome.PURGED: "late",
    ArchivedMessage.ArchiveOutcome.DROPPED: "late",
    Message.Status.READY: "good",
    Message.Status.LEASED: "busy",
    Message.Status.SCHEDULED: "late",
}
# Version, trace id, span id, flags, and fields of later versions.
TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")
MOST_REDRIVES = 50
SHOWN_KEYS = (
    "attempt", "interruption", "leased_at", "started_at", "at", "worker", "type", "message", "traceback", "sealed",
)  # fmt: skip

# Backwards by redriven_from, forwards by redriven_to, and where each of them is now; by the keys of the tables.
REDRIVES = """
WITH RECURSIVE before (id, step) AS (
    SELECT %s::bigint, -1
    UNION ALL
    SELECT d.redriven_from, b.step - 1
    FROM before AS b
    JOIN pgqueue_dead_letter AS d ON d.id = b.id
    WHERE d.redriven_from IS NOT NULL AND b.step > -%s
),
since (id, step) AS (
    SELECT %s::bigint, 1
    UNION ALL
    SELECT d.redriven_to, s.step + 1
    FROM since AS s
    JOIN pgqueue_dead_letter AS d ON d.id = s.id
    WHERE d.redriven_to IS NOT NULL AND s.step < %s
)
SELECT f.id, f.step,
    CASE
        WHEN EXISTS (SELECT FROM pgqueue_message AS m WHERE m.id = f.id) THEN 'message'
        WHEN EXISTS (SELECT FROM pgqueue_dead_letter AS d WHERE d.id = f.id) THEN 'deadletter'
        WHEN EXISTS (SELECT FROM pgqueue_archived_message AS a WHERE a.id = f.id) THEN 'archivedmessage'
        ELSE ''
    END
FROM (SELECT b.id, b.step FROM before AS b UNION ALL SELECT s.id, s.step FROM since AS s) AS f
WHERE f.id IS NOT NULL
ORDER BY f.step
"""

AnyMessage = Message | ArchivedMessage | DeadLetter


@dataclass(frozen=True, slots=True)
class StoryStep:
    """Hold one step. ``kind``: the badge's. ``notes``: texts beside it, in one line. ``body``: HTML below it."""

    title: str
    kind: str
    notes: list[str] = field(default_factory=list)
    body: str = ""


def story(item: AnyMessage, logs: Sequence[tuple[int, str]]) -> str:
    """Return the story as a list in HTML. ``logs``: the attempt of each delivery, and HTML of what it has logged."""
    return format_html(
        '<ol class="pgqueue-story">{}</ol>', format_html_join("", "<li>{}</li>", _shown(story_steps(item, logs)))
    )


def _shown(steps: Iterable[StoryStep]) -> Iterator[tuple[str]]:
    for step in steps:
        notes = format_html_join(" · ", "{}", ((note,) for note in step.notes if note))
        yield (format_html("{} <span>{}</span>{}", rendering.badge(step.title, step.kind), notes, step.body),)


def story_steps(item: AnyMessage, logs: Sequence[tuple[int, str]]) -> Iterator[StoryStep]:
    """Yield the steps, the newest first. The log of an attempt is with its failure, or with the present state."""
    errors = item.errors if isinstance(item.errors, list) else []
    if not all(isinstance(error, Mapping) for error in errors):
        errors = []
    failed = [error.get("attempt") for error in errors]
    present = present_step(item, errors)
    yield replace(present, body=format_html_join("", "{}", ((log,) for number, log in logs if number not in failed)))
    before = [item.created_at, *(rendering.parsed(error.get("at")) for error in errors)]
    for error, start in reversed(list(zip(errors, before, strict=False))):
        step = failed_step(error, start)
        logged = format_html_join("", "{}", ((log,) for number, log in logs if number == error.get("attempt")))
        yield replace(step, body=format_html("{}{}", step.body, logged))
    if item.errors and not errors:
        yield StoryStep(_("Errors"), "bad", body=rendering.pretty_json(item.errors))
    yield enqueue_step(item)


def present_step(item: AnyMessage, errors: list[Mapping[str, Any]]) -> StoryStep:
    """Return the step that shows the present state. A leased message has its running attempt with it.

    A message that has ended has its last attempt with it, unless ``errors``, the failed attempts, have that one too.
    """
    last = [] if errors and errors[-1].get("attempt") == item.attempts else last_attempt(item)
    match item:
        case ArchivedMessage():
            title, kind = item.get_outcome_display(), KINDS.get(item.outcome, "bad")
            return StoryStep(title, kind, [rendering.at(item.archived_at), *last])
        case DeadLetter():
            return StoryStep(_("dead letter: %s") % item.reason, "bad", [rendering.at(item.dead_at), *last])
        case Message(status=Message.Status.LEASED):
            notes = [
                *last_attempt(item),
                _("lease until %s") % (item.lease_expires_at and rendering.at(item.lease_expires_at)),
            ]
        case _:
            notes = [_("due %s") % rendering.at(item.dequeue_at)]
    return StoryStep(item.get_status_display(), KINDS.get(item.status, "bad"), notes)


def last_attempt(item: AnyMessage) -> list[str]:
    """Return the notes of the last attempt."""
    if item.leased_at is None:
        return []
    ended_at = getattr(item, "archived_at", None) or getattr(item, "dead_at", None)
    began_at = getattr(item, "started_at", None) or item.leased_at
    return [
        _("attempt %(attempts)d of %(most)d") % {"attempts": item.attempts, "most": item.max_attempts},
        item.worker or "",
        _("waited %s") % rendering.duration(began_at - item.dequeue_at),
        _("ran %s") % rendering.duration(ended_at - began_at) if ended_at else "",
    ]


def failed_step(error: Mapping[str, Any], before: datetime | None) -> StoryStep:
    """Return the step of a failure or an interruption, as pgqueue_retry recorded it. It waited since the enqueue, or
    since the step before."""
    at = rendering.parsed(error.get("at"))
    began_at = rendering.parsed(error.get("started_at")) or rendering.parsed(error.get("leased_at"))
    notes = [
        rendering.moment_text(error["at"]) if "at" in error else "",
        str(error.get("worker") or ""),
        _("waited %s") % rendering.duration(began_at - before) if began_at and before else "",
        _("ran %s") % rendering.duration(at - began_at) if at and began_at else "",
    ]
    rest = {key: value for key, value in error.items() if key not in SHOWN_KEYS}
    body = format_html("{}{}", rendering.error_html(error), rendering.pretty_json(rest) if rest else "")
    if "interruption" in error:
        return StoryStep(_("Interruption %s") % error["interruption"], "late", notes, body)
    return StoryStep(_("Attempt %s failed") % error.get("attempt", "?"), "bad", notes, body)


def enqueue_step(item: AnyMessage) -> StoryStep:
    """Return the first step of the story: when the message was enqueued or redriven, and its trace."""
    notes = [rendering.at(item.created_at)]
    if item.redriven_from is not None:
        notes.append(_("redriven from %d") % item.redriven_from)
    return StoryStep(_("enqueued"), "busy", [*notes, trace_link(item)])


def trace_link(item: AnyMessage) -> str:
    """Return a link to the trace that the headers name, if the setting TRACE_URL is set."""
    if not settings.TRACE_URL:
        return ""
    try:
        headers = item.headers
    except (ValueError, RecursionError):  # SQL has enqueued JSON that Python cannot read
        return ""
    parent = TRACEPARENT.fullmatch(str(headers.get("traceparent"))) if isinstance(headers, dict) else None
    if parent is None:
        return ""
    address = settings.TRACE_URL.replace("{trace_id}", parent[1]).replace("{span_id}", parent[2])
    return format_html('<a href="{}">{}</a>', address, _("trace"))


@dataclass(frozen=True, slots=True)
class RedriveEntry:
    """Hold one message of the history. ``step``: -1 the one before, 1 the next one. ``model``: the admin's name of its
    table; empty if retention has dropped it."""

    id: int
    step: int
    model: str


def redrive_history(redriven_from: int | None, redriven_to: int | None, *, using: str) -> list[RedriveEntry]:
    """Return the other messages of the history, the earliest first; at most 50 in each direction."""
    if redriven_from is None and redriven_to is None:
        return []
    return [
        RedriveEntry(*row) for row in call(using, REDRIVES, (redriven_from, MOST_REDRIVES, redriven_to, MOST_REDRIVES))
    ]
