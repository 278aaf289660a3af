"""The admin of the metrics that were loaded from the lake: per hour and queue by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import ReadOnlyAdmin
from django_pgqueue.admin.filters import ChannelNameFilter, OneOfFilter, QueueFilter
from django_pgqueue.pipeline.models import QueueMetric

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class GrainFilter(OneOfFilter):
    title = _("grain")
    parameter_name = "grain"
    default = QueueMetric.Grain.HOUR

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, StrOrPromise]]:
        return [*QueueMetric.Grain.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(grain=self.chosen())


class LevelFilter(OneOfFilter):
    """Choose the rows of one level: the figures of a queue are not the sum of those of its channels."""

    title = _("level")
    parameter_name = "level"
    default = QueueMetric.Level.QUEUE

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, StrOrPromise]]:
        return [*QueueMetric.Level.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(level=self.chosen())


@admin.register(QueueMetric)
class QueueMetricAdmin(ReadOnlyAdmin):
    """Show the metrics. A row of a queue links to its channels, and a row of a channel to its handlers."""

    list_display = [
        "bucket_at",
        "queue_shown",
        "channel_shown",
        "handler_shown",
        "enqueued_shown",
        "completed_shown",
        "dead_shown",
        "retries_shown",
        "wait_p95",
        "run_p95",
        "total_p95",
        "share",
        "breaches_shown",
    ]
    list_filter = [GrainFilter, LevelFilter, QueueFilter, ChannelNameFilter]
    ordering = ["-bucket_at", "queue", "channel", "handler"]
    sortable_by = ["bucket_at"]
    fieldsets = [
        (None, {"fields": ["grain", "bucket_at", "queue_shown", "channel_shown", "page_of_channel", "handler_shown"]}),
        (
            _("Messages"),
            {
                "fields": [
                    "enqueued",
                    "completed",
                    "popped",
                    "purged",
                    "dropped",
                    "cancelled",
                    "dead",
                    "dead_reasons",
                ]
            },
        ),
        (_("Attempts"), {"fields": ["attempts", "retries", "retries_reasons", "retry_time"]}),
        (_("Times (half of the messages, 95 %, 99 %)"), {"fields": ["wait", "run", "total", "run_time", "share"]}),
        (_("SLA"), {"fields": ["promise", "sla_breaches"]}),
    ]

    def down(self, metric: QueueMetric, text: str, level: str, **chosen: str) -> str:
        """Return a link to the metrics of this queue and grain at a finer level. ``chosen``: more filters."""
        return self.link(
            rendering.name(text),
            "queuemetric_changelist",
            grain=metric.grain,
            level=level,
            queue=metric.queue,
            **chosen,
        )

    @admin.display(description=_("queue"))
    def queue_shown(self, metric: QueueMetric) -> str:
        return self.down(metric, metric.queue, "channel")

    @admin.display(description=_("channel"), empty_value=_("all"))  # type: ignore[call-overload, untyped-decorator]  # stubs: no lazy text
    def channel_shown(self, metric: QueueMetric) -> str | None:
        """Return the channel with a link to the metrics of its handlers; None for a row of the whole queue."""
        if metric.channel is None:
            return None
        return self.down(metric, metric.channel, "handler", channel=metric.channel)

    @admin.display(description=_("page of the channel"), empty_value="-")
    def page_of_channel(self, metric: QueueMetric) -> str | None:
        return None if metric.channel is None else self.link_to_channel(metric.queue, metric.channel)

    @admin.display(description=_("handler"), empty_value=_("all"))  # type: ignore[call-overload, untyped-decorator]  # stubs: no lazy text
    def handler_shown(self, metric: QueueMetric) -> str | None:
        return None if metric.handler is None else rendering.name(metric.handler)

    @admin.display(description=_("enqueued"))
    def enqueued_shown(self, metric: QueueMetric) -> str:
        return rendering.number(metric.enqueued)

    @admin.display(description=_("completed"))
    def completed_shown(self, metric: QueueMetric) -> str:
        return rendering.number(metric.completed)

    @admin.display(description=_("dead"))
    def dead_shown(self, metric: QueueMetric) -> str:
        return rendering.number(metric.dead)

    @admin.display(description=_("retries"))
    def retries_shown(self, metric: QueueMetric) -> str:
        return rendering.number(metric.retries)

    @admin.display(description=_("wait p95"))
    def wait_p95(self, metric: QueueMetric) -> str | None:
        return rendering.seconds_text(metric.wait_p95_seconds)

    @admin.display(description=_("run p95"))
    def run_p95(self, metric: QueueMetric) -> str | None:
        return rendering.seconds_text(metric.run_p95_seconds)

    @admin.display(description=_("total p95"))
    def total_p95(self, metric: QueueMetric) -> str | None:
        return rendering.seconds_text(metric.total_p95_seconds)

    @admin.display(description=_("capacity"))
    def share(self, metric: QueueMetric) -> str | None:
        """Return the row's part of the time that the queue's handlers ran."""
        return None if metric.capacity_share is None else f"{metric.capacity_share:.1%}"

    @admin.display(description=_("SLA breaches"))
    def breaches_shown(self, metric: QueueMetric) -> str | None:
        return None if metric.sla_seconds is None else rendering.number(metric.sla_breaches)

    @admin.display(description=_("waited"))
    def wait(self, metric: QueueMetric) -> str:
        return percentiles_text(metric, "wait")

    @admin.display(description=_("ran"))
    def run(self, metric: QueueMetric) -> str:
        return percentiles_text(metric, "run")

    @admin.display(description=_("from the enqueue to the end"))
    def total(self, metric: QueueMetric) -> str:
        return percentiles_text(metric, "total")

    @admin.display(description=_("under lease"))
    def run_time(self, metric: QueueMetric) -> str | None:
        return rendering.seconds_text(metric.run_seconds)

    @admin.display(description=_("in failed attempts"))
    def retry_time(self, metric: QueueMetric) -> str | None:
        return rendering.seconds_text(metric.retry_seconds)

    @admin.display(description=_("promised within"))
    def promise(self, metric: QueueMetric) -> str:
        return rendering.seconds_text(metric.sla_seconds) or "-"

    @admin.display(description=_("retries by error"))
    def retries_reasons(self, metric: QueueMetric) -> str:
        return rendering.pretty_json(metric.retries_by_reason)

    @admin.display(description=_("dead letters by reason"))
    def dead_reasons(self, metric: QueueMetric) -> str:
        return rendering.pretty_json(metric.dead_by_reason)


def percentiles_text(metric: QueueMetric, what: str) -> str:
    """Return p50, p95 and p99 of ``what``: wait, run or total."""
    found = [rendering.seconds_text(getattr(metric, f"{what}_p{percent}_seconds")) for percent in (50, 95, 99)]
    return ", ".join(text or "-" for text in found)
