from __future__ import annotations

from django.db import models

from django_pgqueue.models.expressions import ClockTimestamp


class Worker(models.Model):
    """A worker process, as it last described itself. A row that is not refreshed is of a worker that died."""

    name = models.CharField(max_length=200, primary_key=True)
    hostname = models.CharField(max_length=200)
    pid = models.IntegerField()
    queues = models.JSONField()
    concurrency = models.IntegerField()
    version = models.CharField(max_length=50)
    started_at = models.DateTimeField(db_default=ClockTimestamp())
    heartbeat_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        db_table = "pgqueue_worker"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
