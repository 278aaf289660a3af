"""Hold the figures of the dashboard. Only pgqueue_measure writes them; sql/tables/activity_v01.sql has the parts that
models cannot express."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_pgqueue.models.counts import Counts
from django_pgqueue.models.fields import Json, Moment


class Activity(models.Model):
    """Count the messages that were settled in ``minutes`` from ``bucket_at`` on: those of a channel, those of a
    handler, or with both NULL those of the whole queue.

    Queues have minutes for two hours and ten minutes for a day, channels ten minutes for two hours and hours for a day,
    handlers ten minutes for a day, and one row (``minutes`` 0) for all time.
    ``waits``, ``runs``: histograms of pgqueue_histogram, from due to the start of the last handler, and from there to
    settled.
    """

    queue = models.CharField(max_length=100, db_collation="C")
    channel = models.CharField(max_length=200, null=True, db_collation="C")
    handler = models.CharField(max_length=200, null=True, db_collation="C")
    minutes = models.SmallIntegerField()
    bucket_at = Moment()
    completed = models.BigIntegerField(help_text=_("Completed or popped."))
    cancelled = models.BigIntegerField(help_text=_("Cancelled, purged or dropped."))
    dead = models.BigIntegerField(help_text=_("Dead-lettered."))
    retries = models.BigIntegerField(help_text=_("Attempts before the last one, of all these messages."))
    errors = Json(default=dict, db_default={}, help_text=_("Failed attempts of a handler by type, if minutes is 0."))
    waits = Counts()
    runs = Counts()

    class Meta:
        db_table = "pgqueue_activity"
        default_permissions = ()
        # Each index has few of many rows: whole queues for the charts, errors for the order of channels.
        indexes = [
            models.Index(fields=["minutes", "bucket_at"], name="pgqueue_activity_bucket"),
            models.Index(
                fields=["minutes", "bucket_at"], name="pgqueue_activity_queues", condition=Q(channel=None, handler=None)
            ),
            models.Index(
                fields=["minutes", "bucket_at"], name="pgqueue_activity_handlers", condition=Q(handler__isnull=False)
            ),
            models.Index(
                fields=["minutes", "bucket_at"],
                name="pgqueue_activity_dead",
                condition=Q(channel__isnull=False, dead__gt=0),
            ),
        ]

    def __str__(self) -> str:
        place = "/".join(part for part in (self.queue, self.channel, self.handler) if part is not None)
        return f"{place} {self.bucket_at:%Y-%m-%d %H:%M}, {self.minutes} min"


class Dashboard(Activity):
    """Represent the dashboard's page in the admin: its permission is ``pgqueue.view_dashboard``."""

    class Meta:
        proxy = True
        default_permissions = ("view",)
        verbose_name = _("dashboard")
        # The admin sorts its index by this name. The space brings the page to its top, and HTML does not show it.
        verbose_name_plural = _(" Dashboard")
