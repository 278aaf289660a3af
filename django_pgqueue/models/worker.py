from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.models.fields import Moment


class Worker(models.Model):
    """A worker process, as it last described itself. A row without a recent heartbeat belongs to a worker that died."""

    class State(models.TextChoices):
        STARTING = "starting", _("starting")
        RUNNING = "running", _("running")
        STOPPING = "stopping", _("stopping")

    name = models.CharField(max_length=200, primary_key=True)
    hostname = models.CharField(max_length=200)
    pid = models.IntegerField()
    queues = models.JSONField()
    # The names of the handlers that it has loaded; NULL until it has reported them, which a starting one has not.
    handlers = models.JSONField(null=True)
    concurrency = models.IntegerField()
    version = models.CharField(max_length=50)
    started_at = Moment(db_default=ClockTimestamp())
    heartbeat_at = Moment(db_default=ClockTimestamp())

    state = models.CharField(max_length=10, choices=State, default=State.RUNNING, db_default=State.RUNNING)
    supervisor = models.CharField(max_length=200, blank=True, default="", db_default="")
    running = models.JSONField(default=list, db_default=[])
    totals = models.JSONField(default=dict, db_default={})
    memory_bytes = models.BigIntegerField(null=True)
    paused_at = Moment(null=True)
    pause_reason = models.TextField(blank=True, default="", db_default="")

    class Meta:
        db_table = "pgqueue_worker"
        ordering = ["name"]
        # Dequeues of a queue with max_share count the slots of live workers; killed ones keep their rows for a while.
        indexes = [models.Index(fields=["heartbeat_at"], name="pgqueue_worker_heartbeat")]
        permissions = [("pause_worker", "Can pause and resume workers")]

    def __str__(self) -> str:
        return self.name
