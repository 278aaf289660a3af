"""Filter lists at low cost: no filter lists all channels or scans a table for its values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin.base import MAX_BIGINT
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.models import Channel, Message
from django_pgqueue.sql.call import call

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MOST_CHOICES = 20
RECENT_ROWS = 10_000
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


class ValueFilter(admin.SimpleListFilter):
    """Offer some values and take any: a value in the address that is not offered is added to the list."""

    lookup = ""

    def offered(self) -> Iterable[str]:
        """Return the values of the list."""
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, StrOrPromise]]:
        values = list(self.offered())
        chosen = self.value()
        if chosen and chosen not in values:
            values.append(chosen)
        return [(value, value) for value in values]

    def has_output(self) -> bool:
        return bool(self.lookup_choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if not value:
            return queryset
        # PostgreSQL has no text with NUL, so no row has this value.
        return queryset.none() if "\0" in value else queryset.filter(**{self.lookup: value})


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


class QueueFilter(ValueFilter):
    title = _("queue")
    parameter_name = "queue"
    lookup = "queue"

    def offered(self) -> Iterable[str]:
        return [queue for (queue,) in call(alias(None), QUEUES, (MOST_CHOICES,))]


class ChannelQueueFilter(QueueFilter):
    """Filter by the queue of a message's channel."""

    lookup = "channel__queue"


class RecentValueFilter(ValueFilter):
    """Offer the values among the newest rows."""

    table = ""

    def offered(self) -> Iterable[str]:
        sql = RECENT_VALUES.format(column=self.parameter_name, table=self.table)
        return [value for (value,) in call(alias(None), sql, (RECENT_ROWS, MOST_CHOICES))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        self.lookup = str(self.parameter_name)
        return super().queryset(request, queryset)


class HandlerFilter(RecentValueFilter):
    title = _("handler (of the newest)")
    parameter_name = "handler"


class MessageHandlerFilter(HandlerFilter):
    table = "pgqueue_message"


class DeadLetterReasonFilter(RecentValueFilter):
    title = _("reason")
    parameter_name = "reason"
    table = "pgqueue_dead_letter"


class ActiveChannelFilter(admin.SimpleListFilter):
    """Offer some channels that have work, of the chosen queue if there is one. The address takes any channel's id."""

    title = _("channel (some with work)")
    parameter_name = "channel"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, StrOrPromise]]:
        database, queue = alias(None), request.GET.get("queue") or None
        if queue and "\0" in queue:
            return []
        rows = [
            (str(pk), name) for pk, name in call(database, ACTIVE_CHANNELS, (RECENT_ROWS, queue, queue, MOST_CHOICES))
        ]
        chosen = self.channel_id()
        if chosen and str(chosen) not in dict(rows):
            rows += [(str(channel.pk), str(channel)) for channel in Channel.objects.using(database).filter(pk=chosen)]
        return rows

    def channel_id(self) -> int | None:
        """Return the id that the request chose, or None if it is no id that PostgreSQL can compare."""
        value = self.value() or ""
        return int(value) if value.isascii() and value.isdigit() and int(value) <= MAX_BIGINT else None

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if not self.value():
            return queryset
        chosen = self.channel_id()
        return queryset.filter(channel=chosen) if chosen is not None else queryset.none()


class ChannelNameFilter(admin.SimpleListFilter):
    """Filter by the channel in the address. It offers no others, because there may be too many."""

    title = _("channel")
    parameter_name = "channel"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, StrOrPromise]]:
        value = self.value()
        return [(value, value)] if value else []

    def has_output(self) -> bool:
        return bool(self.value())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if not value:
            return queryset
        return queryset.none() if "\0" in value else queryset.filter(channel=value)


class HolderFilter(ChannelNameFilter):
    """Filter by the worker that holds the lease; a worker's page links here. Few messages are leased, and they have an
    index."""

    title = _("held by")
    parameter_name = "worker"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if not value:
            return queryset
        return queryset.none() if "\0" in value else queryset.filter(status=Message.Status.LEASED, worker=value)


class AgeFilter(admin.SimpleListFilter):
    """Filter rows by whether their time is within the last hours, or before them."""

    title = _("age")
    parameter_name = "age"
    column = "created_at"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, StrOrPromise]]:
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


class ChannelStateFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, StrOrPromise]]:
        return [("open", _("open")), ("paused", _("paused")), ("released", _("released"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "open":
                return queryset.filter(paused_at=None, released_at=None)
            case "paused":
                return queryset.exclude(paused_at=None)
            case "released":
                return queryset.exclude(released_at=None)
        return queryset


class RedrivenFilter(admin.SimpleListFilter):
    title = _("redriven")
    parameter_name = "redriven"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, StrOrPromise]]:
        return [("no", _("waiting")), ("yes", _("redriven"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "no":
                return queryset.filter(redriven_at=None)
            case "yes":
                return queryset.exclude(redriven_at=None)
        return queryset
