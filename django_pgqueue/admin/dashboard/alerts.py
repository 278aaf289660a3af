"""Describe what is wrong in sentences, the worst first, for an operator on call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_pgqueue.admin import rendering
from django_pgqueue.admin.dashboard.figures import (
    Freshness,
    LimitedChannels,
    QueueFigures,
    ScheduleFigures,
    WorkerFigures,
)
from django_pgqueue.admin.dashboard.spans import Key, Spans
from django_pgqueue.conf import settings
from django_pgqueue.lifecycle.breakers import BreakerState
from django_pgqueue.lifecycle.figures import HeldChannel, LimitHealth
from django_pgqueue.limits import handler_of_limit

BAD, LATE = "bad", "late"
# A message that waits longer than this many times WAITING_WARNING is bad; a shorter wait is late.
MUCH_FACTOR = 10
# More dead letters than this share of an hour's messages are bad.
MANY_DEAD_SHARE = 0.01
# More retries than this share of an hour's messages raise an alert.
MANY_RETRIES_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Alert:
    """Describe one problem. ``kind``: bad or late. ``page`` and ``query``: the page of the admin that shows more."""

    kind: str
    text: str
    page: str = ""
    query: Mapping[str, object] = field(default_factory=dict)


def alerts(
    fresh: Freshness,
    queues: Sequence[QueueFigures],
    spans: dict[Key, Spans],
    died: dict[Key, tuple[int, int]],
    limited: LimitedChannels | None,
    shared: Sequence[LimitHealth],
    held: Sequence[HeldChannel],
    breakers: Sequence[BreakerState],
    workers: Sequence[WorkerFigures],
    schedules: Sequence[ScheduleFigures],
) -> list[Alert]:
    """Return all alerts, the bad ones first."""
    found = [*of_freshness(fresh)]
    for queue in queues:
        key = (queue.name, None)
        found += of_queue(queue, spans.get(key, Spans()), died.get(key, (0, 0))[0], fresh.now)
    found += [*of_limits(limited), *of_shared_limits(shared), *of_held_channels(held)]
    found += [*of_breakers(breakers, fresh.now), *worker_alerts(workers), *of_schedules(schedules)]
    return sorted(found, key=lambda alert: alert.kind != BAD)


def of_freshness(fresh: Freshness) -> Iterator[Alert]:
    """Yield an alert if the figures are old."""
    if fresh.measured_at is None:
        yield Alert(BAD, _("There are no figures yet: start a worker, or run manage.py sweepqueue."))
    elif fresh.is_stale:
        age = rendering.duration(fresh.now - fresh.measured_at)
        yield Alert(BAD, _("These figures are %s old: no worker runs maintenance.") % age, "worker_changelist")


def lateness(age: timedelta) -> str:
    """Return whether a wait of this age is bad, late, or neither (empty)."""
    if age > MUCH_FACTOR * settings.WAITING_WARNING:
        return BAD
    return LATE if age > settings.WAITING_WARNING else ""


def of_queue(queue: QueueFigures, spans: Spans, dead: int, now: datetime) -> Iterator[Alert]:
    """Yield the alerts of one queue: it is paused, has no worker, is late, or many of its messages die or fail.

    ``spans``: what it settled in the last hour and before. ``dead``: how many of the last hour wait for a redrive.
    ``now``: the time of the database.
    """
    name, backlog, hour = queue.name, queue.backlog, spans.hour
    waiting = {"queue": name, "status__exact": 1}
    if queue.paused and backlog.ready:
        text = ngettext(
            "Queue %(queue)s is paused, and %(ready)s message waits.",
            "Queue %(queue)s is paused, and %(ready)s messages wait.",
            backlog.ready,
        )
        yield Alert(LATE, text % {"queue": name, "ready": f"{backlog.ready:,}"}, "queue_changelist", {"q": name})
    elif (left := backlog.ready + backlog.waiting_for_limit) and not queue.workers:
        text = ngettext(
            "Queue %(queue)s has no worker, and %(ready)s message waits.",
            "Queue %(queue)s has no worker, and %(ready)s messages wait.",
            left,
        )
        query = waiting if backlog.ready == left else {"queue": name}
        yield Alert(BAD, text % {"queue": name, "ready": f"{left:,}"}, "message_changelist", query)
    elif backlog.oldest_at and (kind := lateness(age := now - backlog.oldest_at)):
        text = _("In queue %(queue)s a message has waited for %(age)s.")
        yield Alert(kind, text % {"queue": name, "age": rendering.duration(age)}, "message_changelist", waiting)
    if dead:
        text = ngettext(
            "In queue %(queue)s %(dead)s message died within an hour (%(share)s of all).",
            "In queue %(queue)s %(dead)s messages died within an hour (%(share)s of all).",
            dead,
        )
        share = dead / max(hour.settled, dead)
        sentence = text % {"queue": name, "dead": f"{dead:,}", "share": percent(share)}
        query = {"queue": name, "redriven": "no", "age": "hour"}
        yield Alert(BAD if share > MANY_DEAD_SHARE else LATE, sentence, "deadletter_changelist", query)
    if hour.retries > MANY_RETRIES_SHARE * hour.settled:
        text = ngettext(
            "In queue %(queue)s %(retries)s attempt failed within an hour; messages settled: %(settled)s.",
            "In queue %(queue)s %(retries)s attempts failed within an hour; messages settled: %(settled)s.",
            hour.retries,
        )
        numbers = {"queue": name, "retries": f"{hour.retries:,}", "settled": f"{hour.settled:,}"}
        yield Alert(LATE, text % numbers)


def of_limits(limited: LimitedChannels | None) -> Iterator[Alert]:
    """Yield an alert if channels are at their limit."""
    if limited is None:
        return
    text = ngettext(
        "Channel %(name)s is at its limit (%(leased)s of %(most)s at once), and %(ready)s message waits for it.",
        "Channel %(name)s is at its limit (%(leased)s of %(most)s at once), and %(ready)s messages wait for it.",
        limited.ready,
    )
    sentence = text % {
        "name": f"{limited.queue}/{limited.name}",
        "leased": limited.leased,
        "most": limited.max_concurrency,
        "ready": f"{limited.ready:,}",
    }
    if limited.count == 1:
        yield Alert(LATE, sentence, "channel_named", {"queue": limited.queue, "channel": limited.name})
        return
    more = limited.count - 1
    sentence += " " + ngettext("So is %s other channel.", "So are %s other channels.", more) % f"{more:,}"
    yield Alert(LATE, sentence, "dashboard_changelist", {"queue": limited.queue, "order": "limits"})


def of_shared_limits(limits: Sequence[LimitHealth]) -> Iterator[Alert]:
    """Yield an alert for each shared limit for which a message waits too long."""
    why = {
        "paused": _("it is paused"),
        "full": _("all of its places are taken"),
        "rate": _("its rate gives no token"),
        None: _("it has room"),
    }
    for limit in limits:
        # The alerts of a queue have the waits for its own limit.
        if limit.kind == "shared" and limit.oldest_age is not None and (kind := lateness(limit.oldest_age)):
            handler = handler_of_limit(limit.name)
            text = (
                _("A message has waited for the handler %(name)s for %(age)s: %(why)s.")
                if handler
                else _("A message has waited for the shared limit %(name)s for %(age)s: %(why)s.")
            )
            facts = {"name": handler or limit.name, "age": rendering.duration(limit.oldest_age), "why": why[limit.why]}
            yield Alert(kind, text % facts, "sharedlimit_changelist", {"q": limit.name})


def of_held_channels(channels: Sequence[HeldChannel]) -> Iterator[Alert]:
    """Yield an alert for each ordered channel that a message holds for too long."""
    text = _(
        "Message %(message)s has held the ordered channel %(channel)s for %(age)s, attempts: %(attempts)s of %(most)s."
    )
    for held in channels:
        if held.behind and (kind := lateness(held.age)):
            facts = {
                "message": held.message_id,
                "channel": f"{held.queue}/{held.channel}",
                "age": rendering.duration(held.age),
                "attempts": held.attempts,
                "most": held.max_attempts,
            }
            yield Alert(kind, text % facts, "channel_named", {"queue": held.queue, "channel": held.channel})


def of_breakers(breakers: Sequence[BreakerState], now: datetime) -> Iterator[Alert]:
    """Yield an alert if breakers are open, about the one that has been open for the longest."""
    found = [breaker for breaker in breakers if breaker.is_open]
    if not found:
        return
    text = _("The breaker of %(name)s has been open for %(age)s; messages that wait for it: %(waiting)s.")
    age = rendering.duration(now - (found[0].opened_at or now))
    sentence = text % {"name": found[0].name(), "age": age, "waiting": found[0].waiting_text}
    if others := len(found) - 1:
        sentence += " " + ngettext("So is %s other breaker.", "So are %s other breakers.", others) % others
    yield Alert(LATE, sentence, "sharedlimit_changelist", {} if others else {"q": found[0].handler})


def worker_alerts(workers: Sequence[WorkerFigures]) -> Iterator[Alert]:
    """Yield alerts for silent and paused workers."""
    silent = workers[0].total_silent if workers else 0
    if silent:
        text = ngettext(
            "%s worker is silent: its messages are delivered to others when their leases end.",
            "%s workers are silent: their messages are delivered to others when the leases end.",
            silent,
        )
        recent = any(worker.is_lost and worker.silent < timedelta(hours=1).total_seconds() for worker in workers)
        yield Alert(BAD if recent else LATE, text % silent, "worker_changelist", {"alive": "no"})
    paused = sum(worker.paused for worker in workers)
    if paused:
        yield Alert(
            LATE, ngettext("%s worker is paused.", "%s workers are paused.", paused) % paused, "worker_changelist"
        )


def of_schedules(schedules: Sequence[ScheduleFigures]) -> Iterator[Alert]:
    """Yield alerts for failing and overdue schedules."""
    failing = schedules[0].total_failing if schedules else 0
    if failing:
        text = ngettext("%s schedule fails.", "%s schedules fail.", failing) % failing
        yield Alert(BAD, text, "schedule_changelist", {"state": "failing"})
    late = sum((schedule.next or 0) < -60 for schedule in schedules)
    if late:
        text = ngettext("%s schedule is overdue.", "%s schedules are overdue.", late) % late
        yield Alert(BAD, text, "schedule_changelist")


def percent(share: float) -> str:
    """Return a share (0 to 1) in whole percent, ``45 %``; ``< 1 %`` below that."""
    return f"{100 * share:.0f}\N{NO-BREAK SPACE}%" if share >= 0.01 else "<\N{NO-BREAK SPACE}1\N{NO-BREAK SPACE}%"
