"""Say of each limit of a channel what it is, how much of it is used, and what it holds up now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import CappedCount
from django_pgqueue.admin.dashboard.drawing import limit_meter
from django_pgqueue.admin.tenant.reads import Now
from django_pgqueue.lifecycle.explain import Reason
from django_pgqueue.models import Channel

WHEN_FULL = {
    "error": gettext_lazy("The channel is full: it refuses new messages."),
    "drop": gettext_lazy("The channel is full: it drops new messages."),
    "drop_oldest": gettext_lazy("The channel is full: each new message drops the oldest one that waits."),
    "replace": gettext_lazy("The channel is full: a new message drops all that wait."),
}
QUIET_DASH = format_html('<span class="quiet">{}</span>', "–")


@dataclass(frozen=True, slots=True)
class LimitRow:
    """Hold the texts of one limit. ``kind``: bad, late, or empty if it costs nothing now."""

    name: str
    setting: str
    used: str
    cost: str
    kind: str = ""


def limit_rows(
    channel: Channel, now: Now, reasons: Iterable[Reason], settled_in_hour: int, clock: datetime
) -> list[LimitRow]:
    """Return rows for the pauses of queue and channel and for the order, if there are any, and for the four limits.

    A released channel has no limits any more: only the pause of its queue and its order hold it up.

    ``now``: the counts of its live messages. ``reasons``: the answer of explain_channel. ``settled_in_hour``: messages
    settled in the last hour. ``clock``: the time of the database.
    """
    held = {reason.code: reason for reason in reasons}
    rows = [*queue_pause_row(held.get("queue_paused"), now, clock), *channel_pause_row(channel, now, clock)]
    rows += order_row(channel, held.get("ordered"), clock)
    if channel.released_at is not None:
        return rows
    return [
        *rows,
        max_concurrency_row(channel, now, "concurrency" in held),
        rate_row(channel, now, held.get("rate"), settled_in_hour, clock),
        max_size_row(channel, now),
        weight_row(channel),
    ]


def waits_text(count: int) -> str:
    """Return how many messages a limit holds up. All that are ready wait for each limit that is reached."""
    if not count:
        return _("It is reached, and no message waits.")
    return ngettext("%s ready message waits for it.", "%s ready messages wait for it.", count) % figure_text(count)


def figure_text(count: int) -> str:
    """Return a number with separators; a CappedCount as its own text."""
    return f"{count:,}" if type(count) is int else str(count)


def queue_pause_row(reached: Reason | None, now: Now, clock: datetime) -> Iterator[LimitRow]:
    """Yield the pause of the whole queue."""
    if reached is not None:
        since, until = (rendering.parsed(reached.facts.get(name)) for name in ("paused_at", "until"))
        yield pause_row(_("pause of the queue"), since, until, now, clock)


def channel_pause_row(channel: Channel, now: Now, clock: datetime) -> Iterator[LimitRow]:
    """Yield the pause of the channel. A channel that is released drains in spite of it."""
    if channel.paused_at is not None and channel.released_at is None:
        yield pause_row(_("pause"), channel.paused_at, channel.paused_until, now, clock)


def pause_row(name: str, since: datetime | None, until: datetime | None, now: Now, clock: datetime) -> LimitRow:
    """Return the row of a pause: its end, how many messages wait, how long it has lasted.

    ``name`` says whether the channel or its queue is paused. ``clock`` is the database's time.
    """
    setting = _("until %s") % rendering.at(until) if until else _("until you resume it")
    cost = waits_text(now.ready)
    if since is not None:
        cost += " " + _("It has lasted for %s.") % rendering.duration(max(timedelta(0), clock - since))
    return LimitRow(name, setting, QUIET_DASH, cost, "late")


def order_row(channel: Channel, reached: Reason | None, clock: datetime) -> Iterator[LimitRow]:
    """Yield the strict order of the channel, and the message that holds it."""
    if not channel.ordered:
        return
    setting = _("one after the other; at a dead letter: %s") % channel.get_on_dead_display()
    if reached is None:
        yield free_row("ordered", setting, QUIET_DASH)
        return
    cost = ngettext("%s ready message waits for it.", "%s ready messages wait for it.", reached.facts["behind"])
    cost %= f"{reached.facts['behind']:,}"
    until = rendering.parsed(reached.facts["held_until"])
    if until is None:
        cost += " " + _("Message %s waits for a shared limit.") % reached.facts["message"]
    else:
        cost += " " + _("Message %(id)s is delivered again in %(time)s.") % {
            "id": reached.facts["message"],
            "time": rendering.duration(max(timedelta(0), until - clock)),
        }
    yield LimitRow("ordered", setting, QUIET_DASH, cost, "late")


def max_concurrency_row(channel: Channel, now: Now, reached: bool) -> LimitRow:
    """Return the row of max_concurrency. ``reached``: the explanation says that it holds messages up now."""
    most, name = channel.max_concurrency, "max_concurrency"
    if most is None or most < 1:
        return unlimited_row(name, ngettext("%s leased", "%s leased", now.leased) % figure_text(now.leased))
    setting = ngettext("%s message at once", "%s messages at once", most) % f"{most:,}"
    used = limit_meter(_("leased"), now.leased, most, full="late")
    return LimitRow(name, setting, used, waits_text(now.ready), "late") if reached else free_row(name, setting, used)


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
        return free_row(name, setting, used)
    cost, following = waits_text(now.ready), rendering.parsed(reached.facts.get("next_at"))
    if following is not None:
        cost += " " + _("The next one is delivered in %s.") % rendering.duration(max(timedelta(0), following - clock))
    return LimitRow(name, setting, used, cost, "late")


def max_size_row(channel: Channel, now: Now) -> LimitRow:
    """Return the row of max_size. A count that is only a lower bound cannot say how full the channel is."""
    most, name = channel.max_size, "max_size"
    if most is None or most < 1:
        return unlimited_row(name, _("%s live") % figure_text(now.live))
    setting = ngettext("%s live message", "%s live messages", most) % f"{most:,}"
    used = limit_meter(_("live"), now.live, most)
    if now.live >= most:
        return LimitRow(name, setting, used, str(WHEN_FULL.get(channel.full_policy, _("The channel is full."))), "bad")
    if isinstance(now.live, CappedCount):
        return LimitRow(name, setting, _("at least %s live") % f"{int(now.live):,}", _("Unknown until it is measured."))
    return free_row(name, setting, used)


def weight_row(channel: Channel) -> LimitRow:
    """Return the row of the weight, which never holds a message up."""
    setting = ngettext("%s message per turn", "%s messages per turn", channel.weight) % f"{channel.weight:,}"
    return LimitRow("weight", setting, QUIET_DASH, _("It holds up nothing: it is the channel's share of the workers."))


def unlimited_row(name: str, used: str = "") -> LimitRow:
    """Return the row of a limit that is not set."""
    setting = format_html('<span class="quiet">{}</span>', _("no limit"))
    return LimitRow(name, setting, used or QUIET_DASH, QUIET_DASH)


def free_row(name: str, setting: str, used: str) -> LimitRow:
    """Return the row of a limit that holds no message up now."""
    return LimitRow(name, setting, used, _("It holds up nothing now."))
