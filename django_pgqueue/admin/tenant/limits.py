"""Say of each limit of a channel, and of each shared limit that its messages wait for, what it is, how much of it is
used, and what it holds up now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import CappedCount, Link, Text, capped
from django_pgqueue.admin.counts import MOST_COUNTED, LimitUsage, limit_usage
from django_pgqueue.admin.dashboard.drawing import limit_meter
from django_pgqueue.admin.tenant.reads import Now
from django_pgqueue.lifecycle.figures import Reason
from django_pgqueue.limits import handler_of_limit
from django_pgqueue.models import Channel, SharedLimit
from django_pgqueue.sql.call import call

WHEN_FULL = {
    "error": gettext_lazy("The channel is full: it refuses new messages."),
    "drop": gettext_lazy("The channel is full: it drops new messages."),
    "drop_oldest": gettext_lazy("The channel is full: each new message drops the oldest one that waits."),
    "replace": gettext_lazy("The channel is full: a new message drops all that wait."),
}
FREE = gettext_lazy("It holds up nothing now.")
QUIET_DASH = format_html('<span class="quiet">{}</span>', "–")
MOST_LIMITS, MOST_WAITING = 20, 1_001
WAITING = """
SELECT l.id, w.messages
FROM pgqueue_limit AS l
CROSS JOIN LATERAL (
    SELECT count(*) AS messages
    FROM (
        SELECT FROM pgqueue_message AS m WHERE m.waits_for = l.id AND m.channel_id = %(channel)s LIMIT %(waiting)s
    ) AS n
) AS w
WHERE w.messages > 0 AND (l.parent_id IS NULL OR l.channel_id = %(channel)s)
ORDER BY w.messages DESC, l.id
LIMIT %(limits)s
"""


@dataclass(frozen=True, slots=True)
class LimitRow:
    """Hold the texts of one limit. ``kind``: bad, late, or empty if it costs nothing now."""

    name: str
    setting: str
    used: str = QUIET_DASH
    cost: Text = FREE
    kind: str = ""


def limit_rows(
    channel: Channel, now: Now, reasons: Iterable[Reason], settled_in_hour: int, clock: datetime
) -> list[LimitRow]:
    """Return rows for the pauses of queue and channel and for the order, if there are any, and for the four limits.

    A released channel drains in spite of its limits: only the pause of its queue and its order hold it up.

    ``now``: the counts of its live messages. ``reasons``: the answer of explain_channel. ``settled_in_hour``: messages
    settled in the last hour. ``clock``: the time of the database.
    """
    held, rows = {reason.code: reason for reason in reasons}, []
    if paused := held.get("queue_paused"):
        since, until = (rendering.parsed(paused.facts.get(name)) for name in ("paused_at", "until"))
        rows.append(pause_row(_("pause of the queue"), since, until, now, clock))
    if channel.paused_at is not None and channel.released_at is None:
        rows.append(pause_row(_("pause"), channel.paused_at, channel.paused_until, now, clock))
    if channel.ordered:
        rows.append(order_row(channel, held.get("ordered"), clock))
    if channel.released_at is not None:
        return rows
    weight = ngettext("%s message per turn", "%s messages per turn", channel.weight) % f"{channel.weight:,}"
    return [
        *rows,
        max_concurrency_row(channel, now, "concurrency" in held),
        rate_row(channel, now, held.get("rate"), settled_in_hour, clock),
        max_size_row(channel, now),
        LimitRow("weight", weight, cost=_("It holds up nothing: it is the channel's share of the workers.")),
    ]


def waits_text(count: int) -> str:
    """Return how many messages a limit holds up. All that are ready wait for each limit that is reached."""
    if not count:
        return _("It is reached, and no message waits.")
    return ngettext("%s ready message waits for it.", "%s ready messages wait for it.", count) % figure_text(count)


def figure_text(count: int) -> str:
    """Return a number with separators; a CappedCount as its own text."""
    return f"{count:,}" if type(count) is int else str(count)


def time_left(until: datetime, clock: datetime) -> str:
    """Return the time until a moment as text; zero if it has passed."""
    return rendering.duration(max(timedelta(0), until - clock))


def pause_row(name: str, since: datetime | None, until: datetime | None, now: Now, clock: datetime) -> LimitRow:
    """Return the row of a pause: its end, how many messages wait, how long it has lasted."""
    cost = waits_text(now.ready)
    if since is not None:
        cost += " " + _("It has lasted for %s.") % time_left(clock, since)
    setting = _("until %s") % rendering.at(until) if until else _("until you resume it")
    return LimitRow(name, setting, cost=cost, kind="late")


def order_row(channel: Channel, reached: Reason | None, clock: datetime) -> LimitRow:
    """Return the row of the strict order, with the message that holds it."""
    setting = _("one after the other; at a dead letter: %s") % channel.get_on_dead_display()
    if reached is None:
        return LimitRow("ordered", setting)
    message, behind = reached.facts["message"], reached.facts["behind"]
    until = rendering.parsed(reached.facts["held_until"])
    if until is None:
        then = _("Message %s waits for a shared limit.") % message
    else:
        values = {"id": message, "time": time_left(until, clock)}
        then = _("Message %(id)s is delivered again in %(time)s.") % values
    cost = ngettext("%s ready message waits for it.", "%s ready messages wait for it.", behind) % f"{behind:,}"
    return LimitRow("ordered", setting, cost=f"{cost} {then}", kind="late")


def max_concurrency_row(channel: Channel, now: Now, reached: bool) -> LimitRow:
    """Return the row of max_concurrency. ``reached``: the explanation says that it holds messages up now."""
    most, name = channel.max_concurrency, "max_concurrency"
    if most is None or most < 1:
        return unlimited_row(name, ngettext("%s leased", "%s leased", now.leased) % figure_text(now.leased))
    setting = ngettext("%s message at once", "%s messages at once", most) % f"{most:,}"
    used = limit_meter(_("leased"), now.leased, most, full="late")
    return LimitRow(name, setting, used, waits_text(now.ready), "late") if reached else LimitRow(name, setting, used)


def rate_row(channel: Channel, now: Now, reached: Reason | None, settled: int, clock: datetime) -> LimitRow:
    """Return the row of release_interval and release_burst.

    ``reached`` is the reason of the explanation if the rate holds messages up now, with the time of the next one.
    ``settled`` is the number of messages in the last hour, which is shown beside the most that the rate allows.
    """
    interval, name = channel.release_interval, "rate"
    if interval is None or interval <= timedelta(0):
        return unlimited_row(name)
    setting = _("1 message per %s") % rendering.duration(interval)
    if channel.release_burst > 1:
        setting += _(", %s at once after a quiet time") % f"{channel.release_burst:,}"
    used = limit_meter(_("settled in an hour"), settled, 3600 / interval.total_seconds(), full="late")
    if reached is None:
        return LimitRow(name, setting, used)
    cost = waits_text(now.ready)
    if following := rendering.parsed(reached.facts.get("next_at")):
        cost += " " + _("The next one is delivered in %s.") % time_left(following, clock)
    return LimitRow(name, setting, used, cost, "late")


def max_size_row(channel: Channel, now: Now) -> LimitRow:
    """Return the row of max_size. A count that is only a lower bound cannot say how full the channel is."""
    most, name = channel.max_size, "max_size"
    if most is None or most < 1:
        return unlimited_row(name, _("%s live") % figure_text(now.live))
    setting = ngettext("%s live message", "%s live messages", most) % f"{most:,}"
    used = limit_meter(_("live"), now.live, most)
    if now.live >= most:
        return LimitRow(name, setting, used, WHEN_FULL.get(channel.full_policy, _("The channel is full.")), "bad")
    if isinstance(now.live, CappedCount):
        return LimitRow(name, setting, _("at least %s live") % f"{int(now.live):,}", _("Unknown until it is measured."))
    return LimitRow(name, setting, used)


def unlimited_row(name: str, used: str = QUIET_DASH) -> LimitRow:
    """Return the row of a limit that is not set."""
    return LimitRow(name, format_html('<span class="quiet">{}</span>', _("no limit")), used, QUIET_DASH)


def shared_limit_rows(channel: Channel, link: Link, *, using: str) -> list[LimitRow]:
    """Return a row for each shared limit that messages of the channel wait for, at most MOST_LIMITS."""
    given = {"channel": channel.pk, "waiting": MOST_WAITING, "limits": MOST_LIMITS}
    waiting = dict(call(using, WAITING, given))
    limits = SharedLimit.objects.using(using).in_bulk(list(waiting))
    # The row of a channel goes by the settings of its limit.
    followed = {limit.pk: limit.parent_id for limit in limits.values() if limit.is_of_channel}
    parents = SharedLimit.objects.using(using).in_bulk(list(followed.values()))
    usage = limit_usage(list(waiting), using=using)
    return [
        shared_limit_row(
            channel, parents.get(followed.get(pk), limits[pk]), usage[pk], capped(count, MOST_COUNTED), link
        )
        for pk, count in waiting.items()
        if pk in limits and pk in usage
    ]


def shared_limit_row(channel: Channel, limit: SharedLimit, usage: LimitUsage, waiting: int, link: Link) -> LimitRow:
    """Return the row of one shared limit. ``waiting``: messages of the channel that wait for it."""
    text = ngettext("%s message waits for it.", "%s messages wait for it.", int(waiting)) % figure_text(waiting)
    cost = link(text, "message_changelist", channel=channel.pk, waits_for=limit.pk)
    handler = handler_of_limit(limit.name)
    label = _("handler %s") % handler if handler else _("shared limit %s") % limit.name
    used: str = QUIET_DASH
    if limit.max_concurrency is not None:
        used = limit_meter(_("leased"), usage.places, limit.max_concurrency, full="late")
    elif limit.max_cost is not None:
        used = limit_meter(_("cost"), usage.cost, limit.max_cost, full="late")
    name = link(label, "sharedlimit_change", limit.pk)
    return LimitRow(name, ", ".join(shared_settings_texts(limit)), used, cost, "late")


def shared_settings_texts(limit: SharedLimit) -> Iterator[str]:
    """Yield the settings of a shared limit, in words."""
    if limit.paused_at is not None:
        yield _("paused")
    if limit.max_concurrency is not None:
        most = limit.max_concurrency
        yield ngettext("%s message at once", "%s messages at once", most) % f"{most:,}"
    if limit.max_cost is not None:
        yield _("cost %s at once") % f"{limit.max_cost:,}"
    if limit.release_interval is not None:
        yield _("1 token per %s") % rendering.duration(limit.release_interval)
