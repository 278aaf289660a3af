from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_lazy as _

from django_pgqueue.models.channel import Channel
from django_pgqueue.models.counts import Ids
from django_pgqueue.models.expressions import ClockTimestamp, Negated
from django_pgqueue.models.fields import Json, MessageJson, Moment, Span
from django_pgqueue.models.triggers import RunsFunction


class Message(models.Model):
    """A live message. ``create``, ``bulk_create``, a plain INSERT and COPY enqueue; only the SQL functions settle."""

    class Status(models.IntegerChoices):
        READY = 1, _("ready")
        LEASED = 2, _("leased")
        SCHEDULED = 3, _("scheduled")

    # The database has no foreign key, whose checks would lock the channel's row with every message. The insert trigger
    # checks instead.
    channel = models.ForeignKey(
        Channel,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="messages",
        verbose_name=_("channel"),
    )
    handler = models.CharField(max_length=200)
    payload = MessageJson(default=dict, db_default={}, blank=True)
    body = models.BinaryField(null=True, blank=True)
    headers = MessageJson(null=True, blank=True)
    priority = models.SmallIntegerField(default=0, db_default=0, help_text=_("Higher first, within the channel."))
    dequeue_at = Moment(db_default=ClockTimestamp(), help_text=_("The time before which it is not delivered."))
    status = models.SmallIntegerField(choices=Status, default=Status.READY, db_default=Status.READY, editable=False)
    attempts = models.IntegerField(default=0, db_default=0, editable=False)
    max_attempts = models.IntegerField(default=5, db_default=5)
    backoff = Span(null=True, blank=True, help_text=_("Pause after the first failure. Empty: one second."))
    backoff_factor = models.FloatField(
        null=True, blank=True, help_text=_("How the pause grows, with jitter. Empty: 2. 1: constant, without jitter.")
    )
    backoff_longest = Span(null=True, blank=True, help_text=_("The longest pause. Empty: one hour."))
    dedupe_key = models.CharField(max_length=200, null=True, blank=True)
    order_key = models.CharField(
        max_length=200,
        null=True,
        blank=True,
        help_text=_("Messages of a channel with the same key are delivered one after the other, in order."),
    )
    order_place = models.BigIntegerField(
        null=True,
        editable=False,
        help_text=_("Its place among the messages of its order key. Empty: its id. A redrive sets the first id."),
    )
    limits = Ids(null=True, editable=False, help_text=_("The ids of its shared limits."))
    # Not a PositiveIntegerField: its CHECK is parsed by each INSERT and each lease. The insert trigger checks instead.
    cost = models.IntegerField(
        null=True, blank=True, help_text=_("The tokens of rates, and the part of max_cost, that it takes. Empty: 1.")
    )
    waits_for = models.BigIntegerField(
        null=True,
        editable=False,
        help_text=_(
            "The id of the shared limit that it waits for. -1: it waits for a message of its order key. -2: for others."
        ),
    )
    promoted_for = models.BigIntegerField(
        null=True,
        editable=False,
        help_text=_(
            "The id of the shared limit that had room when it was made ready. -1: its limit was locked at the last "
            "look."
        ),
    )
    promoted_at = Moment(null=True, editable=False, help_text=_("When it was made ready for a shared limit."))
    flow = models.BigIntegerField(
        null=True,
        editable=False,
        help_text=_(
            "The id of its batch (django_pgqueue.flow), which hears how it ended. 0 or less: a message that waits "
            "does, too."
        ),
    )
    state = Json(null=True, blank=True, help_text=_("JSON that the last deferral saved."))
    errors = Json(null=True, blank=True, editable=False)
    created_at = Moment(db_default=ClockTimestamp(), editable=False)
    leased_at = Moment(null=True, editable=False)
    last_leased_at = Moment(null=True, editable=False)
    lease_expires_at = Moment(null=True, editable=False)
    lease_token = models.UUIDField(null=True, editable=False)
    worker = models.CharField(max_length=200, null=True, editable=False)
    redriven_from = models.BigIntegerField(null=True, editable=False)
    settled_token = models.UUIDField(null=True, editable=False)
    cancelled_at = Moment(null=True, editable=False)
    cancel_reason = models.TextField(null=True, editable=False)
    held_until = Moment(
        null=True,
        editable=False,
        help_text=_("In an ordered channel: the time before which it is not delivered again, and no other one is."),
    )

    class Meta:
        db_table = "pgqueue_message"
        indexes = [
            models.Index(
                F("channel"),
                Negated("priority"),
                F("dequeue_at"),
                F("id"),
                name="pgqueue_message_ready",
                condition=Q(status=1),
            ),
            models.Index(fields=["channel", "leased_at"], name="pgqueue_message_leased", condition=Q(status=2)),
            models.Index(
                fields=["lease_expires_at"], name="pgqueue_message_expiry", condition=Q(lease_expires_at__isnull=False)
            ),
            models.Index(fields=["channel", "dequeue_at"], name="pgqueue_message_scheduled", condition=Q(status=3)),
            # Those of them that wait for their time; the others wait for a shared limit, or for their order key.
            models.Index(
                fields=["dequeue_at"], name="pgqueue_message_due", condition=Q(status=3, waits_for__isnull=True)
            ),
            models.Index(
                F("waits_for"),
                F("channel"),
                Negated("priority"),
                F("dequeue_at"),
                F("id"),
                name="pgqueue_message_waiting",
                condition=Q(waits_for__isnull=False),
            ),
            models.Index(
                fields=["promoted_for", "channel"],
                name="pgqueue_message_promoted",
                condition=Q(promoted_for__isnull=False),
            ),
            # The first of a key is the one that was delivered and is not settled, then the one with the least place.
            models.Index(
                F("channel"),
                F("order_key"),
                Coalesce("leased_at", "last_leased_at"),
                Coalesce("order_place", "id"),
                name="pgqueue_message_order",
                condition=Q(order_key__isnull=False),
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["channel", "dedupe_key"], name="pgqueue_message_dedupe", condition=Q(dedupe_key__isnull=False)
            ),
        ]
        permissions = [
            ("cancel_message", "Can cancel messages"),
            ("reschedule_message", "Can reschedule messages"),
            ("discard_message", "Can discard messages"),
            ("edit_message", "Can edit the payload of messages"),
            ("release_message", "Can release leases of messages"),
            ("view_decrypted_payload", "Can see what a codec has encrypted"),
        ]
        triggers = [
            RunsFunction(
                name="message_arrived",
                operation=pgtrigger.Insert,
                referencing=pgtrigger.Referencing(new="arrived"),  # type: ignore[no-untyped-call]  # pgtrigger has no types here
            )
        ]

    def __str__(self) -> str:
        return f"{self.handler} #{self.pk}"
