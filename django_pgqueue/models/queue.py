from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_pgqueue.models.fields import Moment


class Queue(models.Model):
    """What is set for a whole queue. A queue without a row is not paused and tells no events."""

    name = models.CharField(max_length=100, primary_key=True, db_collation="C")
    paused_at = Moment(null=True, blank=True)
    pause_reason = models.TextField(blank=True, default="", db_default="")
    paused_until = Moment(null=True, blank=True, help_text=_("The sweep resumes it then."))
    events = models.BooleanField(
        default=False, db_default=False, help_text=_("NOTIFY of what happens to its messages, on pgqueue_events.")
    )

    class Meta:
        db_table = "pgqueue_queue"
        ordering = ["name"]
        indexes = [models.Index(fields=["name"], name="pgqueue_queue_events", condition=Q(events=True))]
        constraints = [models.CheckConstraint(condition=~Q(name=""), name="pgqueue_queue_named")]
        permissions = [
            ("pause_queue", "Can pause and resume queues"),
            ("purge_queue", "Can purge queues"),
            ("drop_queue", "Can drop queues"),
        ]

    def __str__(self) -> str:
        return self.name
