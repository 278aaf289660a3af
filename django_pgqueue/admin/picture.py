"""Draw what hangs together: a message or a batch, what is before it, what is behind it, and what follows."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering, story
from django_pgqueue.admin.base import Link
from django_pgqueue.models import ArchivedMessage, Message
from django_pgqueue.sql.call import call

SHOWN = 30
"""The most boxes in a row."""
AROUND_MESSAGE = """
SELECT 'batch' AS place, -%(batch)s::bigint AS id WHERE %(batch)s > 0
UNION ALL (
    SELECT 'awaited', m.member_id FROM pgqueue_batch_member AS m
    WHERE m.batch_id = -%(id)s ORDER BY m.member_id LIMIT %(most)s
)
UNION ALL (
    SELECT 'awaited', l.member_id FROM pgqueue_batch_lost AS l
    WHERE l.batch_id = -%(id)s ORDER BY l.member_id LIMIT %(most)s
)
UNION ALL (
    SELECT 'waiter', -w.batch_id FROM pgqueue_batch_member AS w
    WHERE w.member_id = %(id)s AND w.batch_id < 0 ORDER BY w.batch_id DESC LIMIT %(most)s
)
"""
AROUND_BATCH = """
SELECT 'batch' AS place, -b.parent_id AS id FROM pgqueue_batch AS b WHERE b.id = %(batch)s AND b.parent_id IS NOT NULL
UNION ALL (
    SELECT 'member', m.member_id FROM pgqueue_batch_member AS m
    WHERE m.batch_id = %(batch)s ORDER BY m.member_id LIMIT %(most)s
)
UNION ALL (
    SELECT 'member', l.member_id FROM pgqueue_batch_lost AS l
    WHERE l.batch_id = %(batch)s ORDER BY l.member_id LIMIT %(most)s
)
"""
# An id below 0 is that of a batch, with a minus. What may follow a batch that is not over is a request without an id.
PICTURE = """
SELECT n.place, n.id, coalesce(f.model, ''), coalesce(f.handler, n.handler), coalesce(f.state, n.state), f.waits_for
FROM (
    SELECT a.place, a.id, NULL AS handler, NULL AS state FROM ({around}) AS a
    UNION ALL
    SELECT 'follower', b.callback_id, p.request ->> 'handler', p.state
    FROM pgqueue_batch AS b
    LEFT JOIN LATERAL (VALUES ('done', b.on_done), ('dead', b.on_dead)) AS p (state, request)
        ON b.callback_id IS NULL AND p.request IS NOT NULL
    WHERE b.id = %(batch)s AND (b.callback_id IS NOT NULL OR p.request IS NOT NULL)
) AS n
LEFT JOIN LATERAL (
    SELECT 'message' AS model, m.handler, m.status::text AS state, m.waits_for
    FROM pgqueue_message AS m WHERE m.id = n.id
    UNION ALL
    SELECT 'deadletter', d.handler, CASE WHEN d.redriven_at IS NULL THEN 'dead' ELSE 'redriven' END, NULL
    FROM pgqueue_dead_letter AS d WHERE d.id = n.id
    UNION ALL
    SELECT 'archivedmessage', a.handler, a.outcome, NULL FROM pgqueue_archived_message AS a WHERE a.id = n.id
    UNION ALL
    SELECT 'batch', NULL, CASE WHEN b.finished_at IS NULL THEN 'running' ELSE 'over' END, NULL
    FROM pgqueue_batch AS b WHERE b.id = -n.id AND n.id < 0
) AS f ON true
ORDER BY n.id
"""
WAITS = {-1: _("waits for its order key"), -2: _("blocked")}
BATCH_STATES = {"running": (_("running"), "busy"), "over": (_("over"), "good")}
PLANNED = {"done": _("if all are done"), "dead": _("if one is lost")}
TITLES = {
    "batch": _("Its batch"),
    "awaited": _("It waits for"),
    "this": _("This one"),
    "member": _("Members that are not done"),
    "waiter": _("Waiting for it"),
    "follower": _("After the batch"),
}


def picture_of_message(message: Message, *, link: Link, using: str) -> str | None:
    """Return rows of boxes around a message: its batch, what it waits for, what waits for it, and what follows.

    ``link``: makes the links. None: nothing hangs together with it. Rows end after SHOWN boxes.
    """
    asked = {"id": message.pk, "batch": abs(message.flow or 0), "most": SHOWN + 1}
    this = box(link, message.pk, "message", message.handler, str(message.status), message.waits_for)
    return drawn(call(using, PICTURE.format(around=AROUND_MESSAGE), asked), this, link)


def picture_of_batch(batch: Any, *, link: Link, using: str) -> str | None:
    """Return rows of boxes around a batch: its outer one, its members without those that are done, and what follows.

    ``link``: makes the links. None: nothing hangs together with it. Rows end after SHOWN boxes.
    """
    asked = {"batch": batch.pk, "most": SHOWN + 1}
    this = box(link, -batch.pk, "batch", None, "running" if batch.finished_at is None else "over", None)
    return drawn(call(using, PICTURE.format(around=AROUND_BATCH), asked), this, link)


def drawn(rows: list[tuple[Any, ...]], this: str, link: Link) -> str | None:
    """Return the boxes of ``rows`` (place, id, model, handler, state, waits_for) in one row for each place.

    ``this``: the box in the middle.
    """
    if not rows:
        return None
    boxes: dict[str, list[str]] = defaultdict(list)
    for place, *node in rows:
        boxes[place].append(box(link, *node))
    boxes["this"] = [this]
    more = format_html('<span class="quiet">{}</span>', _("and more"))
    lines = (
        (
            place,
            title,
            format_html_join("", "{}", ((each,) for each in [*found[:SHOWN], *[more] * (len(found) > SHOWN)])),
        )
        for place, title in TITLES.items()
        if (found := boxes[place])
    )
    return format_html(
        '<ul class="pgqueue-picture">{}</ul>',
        format_html_join("", '<li class="pgqueue-{}"><span class="quiet">{}</span>{}</li>', lines),
    )


def box(link: Link, pk: int | None, model: str, handler: str | None, state: str | None, waits_for: int | None) -> str:
    """Return one box: a link to the message or batch, its handler, and a badge with its state."""
    name = "" if pk is None else link_to(link, pk, model)
    text, kind = badge_of(model, state, waits_for)
    return format_html(
        '<span class="pgqueue-box">{} {} {}</span>', name, rendering.name(handler or ""), rendering.badge(text, kind)
    )


def link_to(link: Link, pk: int, model: str) -> str:
    """Return a link to a message or a batch, if the user may view it.

    ``pk``: the id of a message, which is in ``model``, or of one that is gone, if that is empty; or minus that of a
    batch.
    """
    if pk < 0:
        return link(_("batch %d") % -pk, "pgqueue_flow_batchrecord_change", -pk)
    return link(pk, f"pgqueue_{model}_change", pk) if model else str(pk)


def badge_of(model: str, state: str | None, waits_for: int | None) -> tuple[str | Promise, str]:
    """Return the text and the kind of the badge of a state."""
    match model, state:
        case "message", str():
            if waits_for is not None:
                return WAITS.get(waits_for, _("waits for a limit")), "late"
            status = Message.Status(int(state))
            return status.label, story.KINDS.get(status, "bad")
        case "archivedmessage", str():
            return ArchivedMessage.ArchiveOutcome(state).label, story.KINDS.get(state, "bad")
        case "deadletter", _any:
            return (_("redriven"), "late") if state == "redriven" else (_("dead letter"), "bad")
        case "batch", str():
            return BATCH_STATES[state]
        case _, str():
            return PLANNED[state], "late"
    return _("gone"), "late"
