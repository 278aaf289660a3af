"""Say of each shared limit that messages of a channel wait for how much of it is used, and what it holds up."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import Link, capped
from django_pgqueue.admin.dashboard.drawing import limit_meter
from django_pgqueue.admin.limit_usage import MOST_COUNTED, LimitUsage, limit_usage
from django_pgqueue.admin.tenant.limits import QUIET_DASH, LimitRow, figure_text
from django_pgqueue.limits import handler_of_limit
from django_pgqueue.models import Channel, SharedLimit
from django_pgqueue.sql.call import call

MOST_LIMITS, MOST_WAITING = 20, 1_001
WAITING = """
SELECT l.id, w.messages
FROM pgqueue_limit AS l
CROSS JOIN LATERAL (
    SELECT count(*) AS messages
    FROM (SELECT FROM pgqueue_message AS m WHERE m.waits_for = l.id AND m.channel_id = %s LIMIT %s) AS n
) AS w
WHERE w.messages > 0
ORDER BY w.messages DESC, l.id
LIMIT %s
"""


def shared_limit_rows(channel: Channel, link: Link, *, using: str) -> list[LimitRow]:
    """Return a row for each shared limit that messages of the channel wait for, at most MOST_LIMITS."""
    waiting = dict(call(using, WAITING, (channel.pk, MOST_WAITING, MOST_LIMITS)))
    limits = SharedLimit.objects.using(using).in_bulk(list(waiting))
    usage = limit_usage(list(waiting), using=using)
    return [
        shared_limit_row(channel, limits[pk], usage[pk], capped(count, MOST_COUNTED), link)
        for pk, count in waiting.items()
        if pk in limits and pk in usage
    ]


def shared_limit_row(channel: Channel, limit: SharedLimit, usage: LimitUsage, waiting: int, link: Link) -> LimitRow:
    """Return the row of one limit. ``waiting``: messages of the channel that wait for it."""
    text = ngettext("%s message waits for it.", "%s messages wait for it.", int(waiting)) % figure_text(waiting)
    cost = link(text, "message_changelist", channel=channel.pk, waits_for=limit.pk)
    handler = handler_of_limit(limit.name)
    label = _("handler %s") % handler if handler else _("shared limit %s") % limit.name
    name = link(label, "sharedlimit_change", limit.pk)
    return LimitRow(name, ", ".join(shared_settings_texts(limit)), used_of(limit, usage) or QUIET_DASH, cost, "late")


def shared_settings_texts(limit: SharedLimit) -> Iterator[str]:
    """Yield the settings of a limit, in words."""
    if limit.paused_at is not None:
        yield _("paused")
    if limit.max_concurrency is not None:
        most = limit.max_concurrency
        yield ngettext("%s message at once", "%s messages at once", most) % f"{most:,}"
    if limit.max_cost is not None:
        yield _("cost %s at once") % f"{limit.max_cost:,}"
    if limit.release_interval is not None:
        yield _("1 token per %s") % rendering.duration(limit.release_interval)


def used_of(limit: SharedLimit, usage: LimitUsage) -> str:
    """Return a meter of the places or of the cost that leased messages take; empty if the limit bounds neither."""
    if limit.max_concurrency is not None:
        return limit_meter(_("leased"), usage.places, limit.max_concurrency, full="late")
    if limit.max_cost is not None:
        return limit_meter(_("cost"), usage.cost, limit.max_cost, full="late")
    return ""
