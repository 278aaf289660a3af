from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.models.fields import Json, Moment, Span
from django_pgqueue.models.queue import ArchivePolicy
from django_pgqueue.models.triggers import RunsFunction


class Channel(models.Model):
    """A tenant's part of a queue, with its own limits. Every dequeue reads it, and it is rarely written.

    Edit a limit and save: it holds from the next dequeue on, for all workers.
    """

    class FullPolicy(models.TextChoices):
        ERROR = "error", _("refuse with an error")
        DROP = "drop", _("drop it, and report that")
        DROP_OLDEST = "drop_oldest", _("drop the oldest that wait")
        REPLACE = "replace", _("drop all that wait: it replaces them")

    class OnDead(models.TextChoices):
        CONTINUE = "continue", _("go on with the next message")
        PAUSE = "pause", _("pause the channel")

    queue = models.CharField(
        max_length=100,
        db_collation="C",
        default="default",
        db_default="default",
        help_text=_("The queue, whose workers serve the channel."),
    )
    name = models.CharField(max_length=200, db_collation="C")
    max_concurrency = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text=_("Messages that may be leased at the same time. Empty: no limit. 1: one after the other."),
    )
    max_size = models.PositiveIntegerField(
        null=True, blank=True, help_text=_("Live messages that the channel may hold. Empty: no limit.")
    )
    full_policy = models.CharField(
        max_length=20,
        choices=FullPolicy,
        default=FullPolicy.ERROR,
        db_default=FullPolicy.ERROR,
        help_text=_("How the channel treats a message that does not fit."),
    )
    release_interval = Span(
        null=True, blank=True, help_text=_("At most one delivery in this time, retries included. Empty: no limit.")
    )
    release_burst = models.PositiveIntegerField(
        default=1, db_default=1, help_text=_("Deliveries that may come at once after a quiet time.")
    )
    weight = models.PositiveIntegerField(default=1, db_default=1, help_text=_("Messages per turn in the round robin."))
    archive = models.CharField(
        max_length=10,
        choices=ArchivePolicy,
        null=True,
        blank=True,
        help_text=_("The content that the archive keeps of its messages. Empty: the queue's setting."),
    )
    ordered = models.BooleanField(
        default=False,
        db_default=False,
        help_text=_(
            "Strict first in, first out: no message is delivered before the one that was delivered last is settled for "
            "good, retries included. Its max_concurrency is 1."
        ),
    )
    on_dead = models.CharField(
        max_length=10,
        choices=OnDead,
        default=OnDead.CONTINUE,
        db_default=OnDead.CONTINUE,
        help_text=_("What an ordered channel does when a message of it becomes a dead letter."),
    )
    stopped_by = models.BigIntegerField(
        null=True,
        editable=False,
        help_text=_("The last dead letter at which the ordered channel paused. It does not pause at it again."),
    )
    context = Json(
        default=dict, db_default={}, blank=True, help_text=_("JSON that every message of the channel carries.")
    )
    paused_at = Moment(null=True, blank=True)
    pause_reason = models.TextField(blank=True, default="", db_default="")
    paused_until = Moment(null=True, blank=True, help_text=_("The time at which the sweep ends the pause."))
    released_at = Moment(
        null=True, blank=True, help_text=_("Since then it takes no new messages; it is removed when it is empty.")
    )
    created_at = Moment(db_default=ClockTimestamp(), editable=False)
    changed_at = Moment(null=True, editable=False, help_text=_("The time of the last change of its limits."))

    class Meta:
        db_table = "pgqueue_channel"
        ordering = ["queue", "name"]
        indexes = [
            models.Index(fields=["changed_at"], name="pgqueue_channel_changed", condition=Q(changed_at__isnull=False)),
            models.Index(
                fields=["paused_until"], name="pgqueue_channel_paused_until", condition=Q(paused_until__isnull=False)
            ),
            models.Index(
                fields=["released_at"], name="pgqueue_channel_released", condition=Q(released_at__isnull=False)
            ),
            # The explanation of a message that no table has reads it.
            models.Index(fields=["queue", "name"], name="pgqueue_channel_unarchived", condition=Q(archive="none")),
            # pgqueue_held_channels looks at ordered channels alone.
            models.Index(fields=["queue"], name="pgqueue_channel_in_order", condition=Q(ordered=True)),
        ]
        constraints = [
            models.UniqueConstraint(fields=["queue", "name"], name="pgqueue_channel_name"),
            models.CheckConstraint(condition=~Q(name="") & ~Q(queue=""), name="pgqueue_channel_named"),
            models.CheckConstraint(
                condition=Q(max_concurrency=None) | Q(max_concurrency__gte=1), name="pgqueue_channel_max_concurrency"
            ),
            models.CheckConstraint(condition=Q(max_size=None) | Q(max_size__gte=1), name="pgqueue_channel_max_size"),
            models.CheckConstraint(
                condition=Q(release_interval=None) | Q(release_interval__gt="00:00:00"),
                name="pgqueue_channel_release_interval",
            ),
            models.CheckConstraint(condition=Q(release_burst__gte=1), name="pgqueue_channel_release_burst"),
            models.CheckConstraint(condition=Q(weight__range=(1, 1000)), name="pgqueue_channel_weight"),
            models.CheckConstraint(
                condition=Q(ordered=False) | Q(max_concurrency__isnull=False, max_concurrency=1),
                name="pgqueue_channel_ordered",
                violation_error_message=_("An ordered channel has a max_concurrency of 1."),
            ),
        ]
        permissions = [
            ("pause_channel", "Can pause and resume channels"),
            ("purge_channel", "Can purge channels"),
            ("erase_channel", "Can erase channels with all of their data"),
        ]
        triggers = [
            RunsFunction(
                name="channel_changed",
                operation=pgtrigger.Update,
                referencing=pgtrigger.Referencing(old="old_channels", new="new_channels"),  # type: ignore[no-untyped-call]  # pgtrigger has no types here
            )
        ]

    def __str__(self) -> str:
        return f"{self.queue}/{self.name}"
