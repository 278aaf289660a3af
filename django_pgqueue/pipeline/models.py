"""What the pipeline keeps in the database for readers: its lakes, and the metrics that were loaded from them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.models.fields import Moment


class Lake(models.Model):
    """A lake of Delta tables, with the state of its last export. Retention reads this table.

    The logs of its tables are the truth; a row that is deleted comes back with the next export. ``lost``: by day,
    how many messages retention has dropped before this lake had them.
    """

    name = models.CharField(max_length=200, primary_key=True)
    path = models.TextField()
    exported_xid = models.BigIntegerField()
    exported_at = Moment(db_default=ClockTimestamp())
    rows = models.JSONField(default=dict, db_default={})
    lost = models.JSONField(default=dict, db_default={})

    class Meta:
        db_table = "pgqueue_lake"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class QueueMetric(models.Model):
    """A row of the lake's metrics. ``level``: whether it describes a queue, a channel or a handler of a channel.

    Percentiles cannot be summed, so each level has rows of its own. A load replaces one day of a grain at a time.

    The constraint on grain, bucket_at, queue, channel, handler is in sql/tables/lake_v01.sql: a check of Django would
    ask the server for NULLS NOT DISTINCT at each start. So is the one that names level, channel and handler together.
    """

    class Grain(models.TextChoices):
        MINUTE = "minute", _("minute")
        HOUR = "hour", _("hour")
        DAY = "day", _("day")

    class Level(models.TextChoices):
        QUEUE = "queue", _("queue")
        CHANNEL = "channel", _("channel")
        HANDLER = "handler", _("handler")

    grain = models.CharField(max_length=10, choices=Grain)
    bucket_at = Moment()
    level = models.CharField(max_length=10, choices=Level)
    queue = models.CharField(max_length=100, db_collation="C")
    channel = models.CharField(max_length=200, null=True, db_collation="C")
    handler = models.CharField(max_length=200, null=True, db_collation="C")
    enqueued = models.BigIntegerField()
    completed = models.BigIntegerField()
    popped = models.BigIntegerField()
    purged = models.BigIntegerField()
    dropped = models.BigIntegerField()
    cancelled = models.BigIntegerField()
    dead = models.BigIntegerField()
    attempts = models.BigIntegerField()
    retries = models.BigIntegerField()
    wait_p50_seconds = models.FloatField(null=True)
    wait_p95_seconds = models.FloatField(null=True)
    wait_p99_seconds = models.FloatField(null=True)
    run_p50_seconds = models.FloatField(null=True)
    run_p95_seconds = models.FloatField(null=True)
    run_p99_seconds = models.FloatField(null=True)
    total_p50_seconds = models.FloatField(null=True)
    total_p95_seconds = models.FloatField(null=True)
    total_p99_seconds = models.FloatField(null=True)
    total_max_seconds = models.FloatField(null=True)
    run_seconds = models.FloatField()
    capacity_share = models.FloatField(null=True)
    retry_seconds = models.FloatField()
    sla_seconds = models.FloatField(null=True)
    sla_breaches = models.BigIntegerField()
    retries_by_reason = models.JSONField(default=dict)
    dead_by_reason = models.JSONField(default=dict)

    class Meta:
        db_table = "pgqueue_queue_metric"
        # Rows of whole queues are few, and the admin shows them first.
        indexes = [
            models.Index(fields=["grain", "bucket_at"], name="pgqueue_queue_metric_queues", condition=Q(level="queue"))
        ]

    def __str__(self) -> str:
        place = "/".join(part for part in (self.queue, self.channel, self.handler) if part is not None)
        return f"{place} {self.bucket_at:%Y-%m-%d %H:%M} ({self.grain})"
