"""Filter lists at low cost: no filter lists all channels or scans a table for its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import CharField, F, Func, Q, QuerySet, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Left, NullIf
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin.base import Text, pk_in
from django_pgqueue.admin.counts import limit_names
from django_pgqueue.models import Channel, DeadLetter, Message, SharedLimit
from django_pgqueue.sql.call import alias, call

MOST_CHOICES = 20
RECENT_ROWS = 10_000
MOST_DEAD = 10_000
"""The newest dead letters, and the scheduled messages that are due first, among which failures are looked for."""
CLIPPED = 160
"""The most characters of an error's message in a list."""
HOURS = {"hour": 1, "day": 24, "week": 168}

# Steps from one queue to the next by the index on (queue, name), however many channels each has.
QUEUES = """
WITH RECURSIVE step AS (
    (SELECT c.queue FROM pgqueue_channel AS c ORDER BY c.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT c.queue FROM pgqueue_channel AS c WHERE c.queue > s.queue ORDER BY c.queue LIMIT 1)
    FROM step AS s
    WHERE s.queue IS NOT NULL
)
SELECT s.queue::text FROM step AS s WHERE s.queue IS NOT NULL LIMIT %s
"""
RECENT_VALUES = """
SELECT DISTINCT r.value::text
FROM (SELECT t.{column} AS value FROM {table} AS t ORDER BY t.id DESC LIMIT %s) AS r
WHERE r.value IS NOT NULL
ORDER BY 1
LIMIT %s
"""
# The channels that have a place in the line are the ones that have work; there may still be many of them.
ACTIVE_CHANNELS = """
SELECT c.id, c.queue || '/' || c.name
FROM (SELECT DISTINCT l.channel_id FROM (SELECT channel_id FROM pgqueue_lane LIMIT %s) AS l) AS l
JOIN pgqueue_channel AS c ON c.id = l.channel_id
WHERE %s::text IS NULL OR c.queue = %s::text
ORDER BY c.queue, c.name
LIMIT %s
"""
Choices = list[tuple[str, Text]]


def queue_names(most: int, *, using: str) -> list[str]:
    """Return the names of the first queues that have channels."""
    return [name for (name,) in call(using, QUEUES, (most,))]


class ChoiceFilter(admin.SimpleListFilter):
    """Offer a few choices, each with a condition."""

    options: dict[str, tuple[Text, Q]] = {}

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [(value, title) for value, (title, _condition) in self.options.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.options.get(self.value() or "")
        return queryset.filter(chosen[1]) if chosen else queryset


class PausedFilter(ChoiceFilter):
    title, parameter_name = _("state"), "state"
    options = {"open": (_("open"), Q(paused_at=None)), "paused": (_("paused"), ~Q(paused_at=None))}


class LimitOfFilter(admin.SimpleListFilter):
    """Offer the limits that are one for each channel, to list the rows of channels, which the list leaves out."""

    title, parameter_name = _("channels of"), "of"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        limits = SharedLimit.objects.using(alias(None)).filter(per="channel", parent_id=None, breaker_failures=None)
        return [(str(pk), name) for pk, name in limits.values_list("pk", "name")[:MOST_CHOICES]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = pk_in(self.value())
        if chosen is None:
            return queryset.exclude(parent_id__isnull=False, breaker_failures=None)
        return queryset.filter(parent_id=chosen)


class ChannelStateFilter(ChoiceFilter):
    title, parameter_name = _("state"), "state"
    options = {
        "open": (_("open"), Q(paused_at=None, released_at=None)),
        "paused": (_("paused"), ~Q(paused_at=None)),
        "released": (_("released"), ~Q(released_at=None)),
    }


class ScheduleStateFilter(ChoiceFilter):
    title, parameter_name = _("state"), "state"
    options = {
        "enabled": (_("enabled"), Q(enabled=True, removed_at=None)),
        "disabled": (_("disabled"), Q(enabled=False, removed_at=None)),
        "failing": (_("failing"), ~Q(last_error="")),
        "removed": (_("removed from code"), ~Q(removed_at=None)),
    }


class RedrivenFilter(ChoiceFilter):
    title, parameter_name = _("redriven"), "redriven"
    options = {"no": (_("waiting"), Q(redriven_at=None)), "yes": (_("redriven"), ~Q(redriven_at=None))}


class AgeFilter(admin.SimpleListFilter):
    """Filter rows by whether their time is within the last hours, or before them."""

    title, parameter_name = _("age"), "age"
    column = "created_at"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        return [
            ("hour", _("within the last hour")),
            ("day", _("within the last day")),
            ("week", _("within the last 7 days")),
            ("over-hour", _("more than an hour ago")),
            ("over-day", _("more than a day ago")),
            ("over-week", _("more than 7 days ago")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value() or ""
        hours = HOURS.get(value.removeprefix("over-"))
        if hours is None:
            return queryset
        comparison = "lt" if value.startswith("over-") else "gte"
        return queryset.filter(**{f"{self.column}__{comparison}": timezone.now() - timedelta(hours=hours)})


class OneOfFilter(admin.SimpleListFilter):
    """Offer few choices, one of which is always taken; there is no "all"."""

    default = ""

    def chosen(self) -> str:
        """Return the value that the request chose, or the default if it is none of those offered."""
        value = self.value()
        return value if value in dict(self.lookup_choices) else str(self.default)

    def choices(self, changelist: Any) -> Iterator[Any]:
        for value, title in self.lookup_choices:
            yield {
                "selected": self.chosen() == value,
                "query_string": changelist.get_query_string({self.parameter_name: value}),
                "display": title,
            }


class ValueFilter(admin.SimpleListFilter):
    """Offer some values and take any: a value in the address that is not offered is added to the list."""

    lookup = ""
    """The column; default: the parameter's name."""

    def offered(self) -> Iterable[str]:
        return ()

    def named(self, value: str) -> Text:
        """Return the text of a value that is not offered."""
        return value

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        found: Choices = [(value, value) for value in self.offered()]
        chosen = self.value()
        return [*found, (chosen, self.named(chosen))] if chosen and chosen not in dict(found) else found

    def has_output(self) -> bool:
        return bool(self.lookup_choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if not value:
            return queryset
        # PostgreSQL has no text with NUL, so no row has this value.
        return queryset.none() if "\0" in value else queryset.filter(self.condition(value))

    def condition(self, value: str) -> Q:
        return Q((self.lookup or self.parameter_name, value))


def problem(model: type[Any]) -> Func:
    """Return type and message of the last error, with # for each number and id, as an expression; without an error the
    reason. Dead letters and messages with the same problem have the same cause."""

    def words(column: str) -> Func:
        parts = [NullIf(KT(f"{column}__{key}"), Value("")) for key in ("type", "message")]
        return NullIf(Func(Value(": "), *parts, function="concat_ws", output_field=CharField()), Value(""))

    places = [words("details"), F("reason")] if model is DeadLetter else [Value("failed")]
    text: Func = Left(Coalesce(*places[:-1], words("errors__-1"), places[-1]), CLIPPED)
    for pattern, put in {r"\m[0-9a-f-]*[0-9][0-9a-f-]*\M|[0-9]+": "#", r"\s+": " "}.items():
        text = Func(text, Value(pattern), Value(put), Value("gi"), function="regexp_replace", output_field=CharField())
    # A filter by an empty text would show all rows.
    return Coalesce(NullIf(Func(text, function="btrim", output_field=CharField()), Value("")), Value("–"))


def due_first(using: str) -> QuerySet[Message]:
    """Return the messages that wait for their time, those that are due first before the others; they have an index."""
    return Message.objects.using(using).filter(status=Message.Status.SCHEDULED, waits_for=None).order_by("dequeue_at")


def retried(due: QuerySet[Message]) -> QuerySet[Message]:
    """Return those among the first MOST_DEAD of due_first() whose last error was no interruption."""
    found = due.filter(pk__in=due.values("pk")[:MOST_DEAD], errors__isnull=False, attempts__gt=0)
    return found.exclude(**{"errors__-1__has_key": "interruption"})


class ErrorFilter(ValueFilter):
    """Filter by the error as ``problem`` writes it, messages among those that wait for a retry; the dashboard links
    here."""

    title, parameter_name = _("error"), "error"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        if queryset.model is Message:
            queryset = queryset.filter(pk__in=retried(due_first(queryset.db)).values("pk"))
        return super().queryset(request, queryset.alias(error=problem(queryset.model)))


class QueueFilter(ValueFilter):
    title, parameter_name = _("queue"), "queue"

    def offered(self) -> Iterable[str]:
        return queue_names(MOST_CHOICES, using=alias(None))


class ChannelQueueFilter(QueueFilter):
    """Filter by the queue of a message's channel."""

    lookup = "channel__queue"


class RecentValueFilter(ValueFilter):
    """Offer the values among the newest rows."""

    def __init__(self, request: HttpRequest, params: Any, model: Any, model_admin: Any) -> None:
        self.table = model._meta.db_table
        super().__init__(request, params, model, model_admin)

    def offered(self) -> Iterable[str]:
        sql = RECENT_VALUES.format(column=self.parameter_name, table=self.table)
        return [value for (value,) in call(alias(None), sql, (RECENT_ROWS, MOST_CHOICES))]


class HandlerFilter(RecentValueFilter):
    title, parameter_name = _("handler (of the newest)"), "handler"


class ReasonFilter(RecentValueFilter):
    title, parameter_name = _("reason"), "reason"


class ChannelNameFilter(ValueFilter):
    """Filter by the channel in the address. It offers no others, because there may be too many."""

    title, parameter_name = _("channel"), "channel"


class HolderFilter(ValueFilter):
    """Filter by the worker that holds the lease; a worker's page links here. Few messages are leased, and they have an
    index."""

    title, parameter_name = _("held by"), "worker"

    def condition(self, value: str) -> Q:
        return Q(status=Message.Status.LEASED, worker=value)


class WaitingFilter(ValueFilter):
    """Filter by the shared limit that messages wait for; the list of limits links here. They have an index.

    ``limit``: messages that wait for any; ``key``: those that wait for their order key; ``messages``: for
    others; ``time``: other scheduled ones.
    """

    title, parameter_name = _("waits for"), "waits_for"
    groups = {
        "limit": (_("any shared limit"), Q(waits_for__gte=0)),
        "key": (_("its order key"), Q(waits_for=-1)),
        "messages": (_("other messages"), Q(waits_for=-2)),
        "time": (_("its time"), Q(status=Message.Status.SCHEDULED, waits_for=None)),
    }

    def named(self, value: str) -> Text:
        if value in self.groups:
            return self.groups[value][0]
        return limit_names([pk_in(value) or 0], using=alias(None)).get(pk_in(value) or 0, value)

    def condition(self, value: str) -> Q:
        if value in self.groups:
            return self.groups[value][1]
        pk = pk_in(value)
        if pk is None:
            return Q(pk__in=())
        rows = SharedLimit.objects.using(alias(None)).filter(parent_id=pk)
        return Q(waits_for=pk) | Q(waits_for__in=rows.values("pk")) if rows.exists() else Q(waits_for=pk)


class ActiveChannelFilter(admin.SimpleListFilter):
    """Offer some channels that have work, of the chosen queue if there is one. The address takes any channel's id."""

    title, parameter_name = _("channel (some with work)"), "channel"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Choices:
        database, queue, chosen = alias(None), request.GET.get("queue") or None, pk_in(self.value())
        if queue and "\0" in queue:
            return []
        found = dict(call(database, ACTIVE_CHANNELS, (RECENT_ROWS, queue, queue, MOST_CHOICES)))
        if chosen and chosen not in found:
            found |= {channel.pk: str(channel) for channel in Channel.objects.using(database).filter(pk=chosen)}
        return [(str(pk), name) for pk, name in found.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        chosen = pk_in(self.value())
        return queryset.none() if chosen is None else queryset.filter(channel=chosen)
