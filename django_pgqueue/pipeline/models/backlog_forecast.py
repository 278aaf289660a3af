from __future__ import annotations

from django.db import models

from django_pgqueue.models.fields import Moment


class BacklogForecast(models.Model):
    """The forecast for a channel in an hour: messages that come, that can be done, and that wait."""

    computed_at = Moment()
    queue = models.CharField(max_length=100, db_collation="C")
    channel = models.CharField(max_length=200, db_collation="C")
    hour_at = Moment()
    expected_enqueued = models.FloatField()
    expected_capacity = models.FloatField()
    expected_backlog = models.FloatField()

    class Meta:
        db_table = "pgqueue_backlog_forecast"
        constraints = [
            models.UniqueConstraint(fields=["queue", "channel", "hour_at"], name="pgqueue_backlog_forecast_once")
        ]

    def __str__(self) -> str:
        return f"{self.queue}/{self.channel} {self.hour_at:%Y-%m-%d %H:%M}"
