from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_pgqueue.models.counts import Ids
from django_pgqueue.models.fields import Json, Moment, Span
from django_pgqueue.models.triggers import RunsFunction


class DeadLetter(models.Model):
    """A message that could not be completed, kept with its reason until it is redriven, deleted, or dropped by
    retention.

    ``id`` is the message's. A redrive sets ``redriven_at`` and ``redriven_to``, the id of the new message. The outcome
    :class:`django_pgqueue.DeadLetter` makes such a row. The two share a name, because Django derives the addresses of
    the admin and the names of permissions from this one.
    """

    id = models.BigIntegerField(primary_key=True)
    queue = models.CharField(max_length=100)
    channel = models.CharField(max_length=200)
    handler = models.CharField(max_length=200)
    payload = Json()
    body = models.BinaryField(null=True)
    headers = Json(null=True)
    priority = models.SmallIntegerField()
    attempts = models.IntegerField()
    max_attempts = models.IntegerField()
    backoff = Span(null=True)
    backoff_factor = models.FloatField(null=True)
    backoff_longest = Span(null=True)
    created_at = Moment()
    dequeue_at = Moment()
    leased_at = Moment(null=True)
    lease_token = models.UUIDField(null=True, editable=False)
    dead_at = Moment()
    reason = models.CharField(
        max_length=200,
        help_text=_(
            "unknown_handler, invalid_payload, invalid_arguments, gone, unreadable, undecodable, failed, poison, "
            "timed_out, stopped, transaction_ended, step_not_kept, not_json, deferred, discarded, rejected, or the "
            "handler's own word"
        ),
    )
    details = Json(null=True)
    state = Json(null=True)
    errors = Json(null=True)
    dedupe_key = models.CharField(max_length=200, null=True)
    order_key = models.CharField(max_length=200, null=True)
    order_place = models.BigIntegerField(null=True)
    worker = models.CharField(max_length=200, null=True)
    redriven_from = models.BigIntegerField(null=True)
    redriven_at = Moment(null=True)
    redriven_to = models.BigIntegerField(null=True)
    limits = Ids(null=True)
    cost = models.PositiveIntegerField(null=True)
    started_at = Moment(null=True)

    class Meta:
        db_table = "pgqueue_dead_letter"
        # Monitors count dead letters that were not redriven; the dashboard counts them by channel.
        indexes = [
            models.Index(fields=["queue", "channel"], name="pgqueue_dead_letter_waiting", condition=Q(redriven_at=None))
        ]
        permissions = [
            ("redrive_deadletter", "Can redrive dead letters"),
            ("edit_deadletter", "Can redrive dead letters with another payload"),
        ]

        triggers = [
            RunsFunction(
                name="dead_letter_added",
                operation=pgtrigger.Insert,
                referencing=pgtrigger.Referencing(new="added"),  # type: ignore[no-untyped-call]  # pgtrigger has no types here
            )
        ]

    def __str__(self) -> str:
        return f"{self.handler} #{self.pk}: {self.reason}"
