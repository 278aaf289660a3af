"""The admin of the metrics that were loaded from the lake: per hour and queue by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import ReadOnlyAdmin
from django_pgqueue.admin.filters import ChannelNameFilter, OneOfFilter, QueueFilter
from django_pgqueue.pipeline.models import QueueMetric

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


class ChoiceFilter(OneOfFilter):
    """Choose the rows with one of the choices of a field."""

    choices_of: type[models.TextChoices]

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, StrOrPromise]]:
        return [*self.choices_of.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{str(self.parameter_name): self.chosen()})


class GrainFilter(ChoiceFilter):
    title = _("grain")
    parameter_name = "grain"
    default = QueueMetric.Grain.HOUR
    choices_of = QueueMetric.Grain


class LevelFilter(ChoiceFilter):
    """Choose the rows of one level: the figures of a queue are not the sum of those of its channels."""

    title = _("level")
    parameter_name = "level"
    default = QueueMetric.Level.QUEUE
    choices_of = QueueMetric.Level


def shown(description: StrOrPromise, text: Callable[[QueueMetric], str | None]) -> Any:
    """Return a column of the admin that shows a metric as this text."""

    @admin.display(description=description)
    def show(self: Any, metric: QueueMetric) -> str | None:
        return text(metric)

    return show


def percentiles_text(metric: QueueMetric, what: str) -> str:
    """Return p50, p95 and p99 of ``what``: wait, run or total."""
    found = [rendering.seconds_text(getattr(metric, f"{what}_p{percent}_seconds")) for percent in (50, 95, 99)]
    return ", ".join(text or "-" for text in found)


def share_text(share: float | None) -> str | None:
    """Return a part of the time that the queue's handlers ran."""
    return None if share is None else f"{share:.1%}"


@admin.register(QueueMetric)
class QueueMetricAdmin(ReadOnlyAdmin):
    """Show the metrics. A row of a queue links to its channels, and a row of a channel to its handlers."""

    list_display = [
        "bucket_at", "queue_shown", "channel_shown", "handler_shown", "enqueued_shown", "completed_shown", "dead_shown",
        "retries_shown", "wait_p95", "run_p95", "total_p95", "share", "breaches_shown",
    ]  # fmt: skip
    list_filter = [GrainFilter, LevelFilter, QueueFilter, ChannelNameFilter]
    ordering = ["-bucket_at", "queue", "channel", "handler"]
    sortable_by = ["bucket_at"]
    fieldsets = [
        (None, {"fields": ["grain", "bucket_at", "queue_shown", "channel_shown", "page_of_channel", "handler_shown"]}),
        (
            _("Messages"),
            {"fields": ["enqueued", "completed", "popped", "purged", "dropped", "cancelled", "dead", "dead_reasons"]},
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

    enqueued_shown = shown(_("enqueued"), lambda metric: rendering.number(metric.enqueued))
    completed_shown = shown(_("completed"), lambda metric: rendering.number(metric.completed))
    dead_shown = shown(_("dead"), lambda metric: rendering.number(metric.dead))
    retries_shown = shown(_("retries"), lambda metric: rendering.number(metric.retries))
    wait_p95 = shown(_("wait p95"), lambda metric: rendering.seconds_text(metric.wait_p95_seconds))
    run_p95 = shown(_("run p95"), lambda metric: rendering.seconds_text(metric.run_p95_seconds))
    total_p95 = shown(_("total p95"), lambda metric: rendering.seconds_text(metric.total_p95_seconds))
    share = shown(_("capacity"), lambda metric: share_text(metric.capacity_share))
    breaches_shown = shown(
        _("SLA breaches"),
        lambda metric: None if metric.sla_seconds is None else rendering.number(metric.sla_breaches),
    )
    wait = shown(_("waited"), lambda metric: percentiles_text(metric, "wait"))
    run = shown(_("ran"), lambda metric: percentiles_text(metric, "run"))
    total = shown(_("from the enqueue to the end"), lambda metric: percentiles_text(metric, "total"))
    run_time = shown(_("under lease"), lambda metric: rendering.seconds_text(metric.run_seconds))
    retry_time = shown(_("in failed attempts"), lambda metric: rendering.seconds_text(metric.retry_seconds))
    promise = shown(_("promised within"), lambda metric: rendering.seconds_text(metric.sla_seconds) or "-")
    retries_reasons = shown(_("retries by error"), lambda metric: rendering.pretty_json(metric.retries_by_reason))
    dead_reasons = shown(_("dead letters by reason"), lambda metric: rendering.pretty_json(metric.dead_by_reason))
