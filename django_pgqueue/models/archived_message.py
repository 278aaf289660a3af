from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from django_pgqueue.models.counts import Ids
from django_pgqueue.models.fields import Json, Moment


class ArchivedMessage(models.Model):
    """A settled message. The table is partitioned by day of ``archived_at``; ids are unique over all partitions, so
    ``id`` is the key here. ``payload`` is SQL's NULL if only the outcome is archived.

    Django does not manage the table: sql/tables/archive_v01.sql creates it, pgqueue_prune its partitions.
    """

    class ArchiveOutcome(models.TextChoices):
        COMPLETED = "completed", _("completed")
        POPPED = "popped", _("popped")
        PURGED = "purged", _("purged")
        CANCELLED = "cancelled", _("cancelled")
        DROPPED = "dropped", _("dropped by a full channel")

    id = models.BigIntegerField(primary_key=True)
    queue = models.CharField(max_length=100)
    channel = models.CharField(max_length=200)
    handler = models.CharField(max_length=200)
    payload = Json(null=True)
    body = models.BinaryField(null=True)
    headers = Json(null=True)
    priority = models.SmallIntegerField()
    attempts = models.IntegerField()
    max_attempts = models.IntegerField()
    created_at = Moment()
    dequeue_at = Moment()
    leased_at = Moment(null=True)
    lease_token = models.UUIDField(null=True)
    archived_at = Moment()
    outcome = models.CharField(max_length=20, choices=ArchiveOutcome)
    result = Json(null=True)
    state = Json(null=True)
    errors = Json(null=True)
    dedupe_key = models.CharField(max_length=200, null=True)
    order_key = models.CharField(max_length=200, null=True)
    worker = models.CharField(max_length=200, null=True)
    redriven_from = models.BigIntegerField(null=True)
    started_at = Moment(null=True)
    limits = Ids(null=True)
    cost = models.IntegerField(null=True)

    class Meta:
        managed = False
        db_table = "pgqueue_archived_message"

    def __str__(self) -> str:
        return f"{self.handler} #{self.pk}: {self.outcome}"
