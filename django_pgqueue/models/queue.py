from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.models.fields import Moment, Span
from django_pgqueue.models.triggers import RunsFunction


class ArchivePolicy(models.TextChoices):
    """The parts of a settled message that the archive keeps. A dead letter is always kept whole."""

    FULL = "full", _("everything")
    OUTCOME = "outcome", _("the outcome, no payload")
    NONE = "none", _("nothing")


class Fairness(models.TextChoices):
    """How the channels of a queue share its workers."""

    TURNS = "turns", _("by turns")
    SHARE = "share", _("by share of the leases")


class Queue(models.Model):
    """The settings of a whole queue.

    A queue without a row is not paused, has no limits, archives everything and sends no events.
    """

    name = models.CharField(max_length=100, primary_key=True, db_collation="C")
    paused_at = Moment(null=True, blank=True)
    pause_reason = models.TextField(blank=True, default="", db_default="")
    paused_until = Moment(null=True, blank=True, help_text=_("The time at which the sweep ends the pause."))
    archive = models.CharField(
        max_length=10,
        choices=ArchivePolicy,
        default=ArchivePolicy.FULL,
        db_default=ArchivePolicy.FULL,
        help_text=_(
            "The content that the archive keeps of its messages, unless the channel or the call says otherwise."
        ),
    )
    retention = Span(
        null=True,
        blank=True,
        help_text=_(
            "How long the archive keeps its messages, counted in whole days. Empty: as long as the setting "
            "ARCHIVE_RETENTION says."
        ),
    )
    dead_letter_retention = Span(
        null=True,
        blank=True,
        help_text=_("How long its dead letters are kept. Empty: as long as the setting DEAD_LETTER_RETENTION says."),
    )
    events = models.BooleanField(
        default=False, db_default=False, help_text=_("Send a NOTIFY on pgqueue_events for each change of its messages.")
    )
    max_concurrency = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text=_("Messages of all channels that may be leased at the same time. Empty: no limit."),
    )
    release_interval = Span(
        null=True,
        blank=True,
        help_text=_("At most one delivery of all channels in this time, retries included. Empty: no limit."),
    )
    release_burst = models.PositiveIntegerField(
        default=1, db_default=1, help_text=_("Deliveries that may come at once after a quiet time.")
    )
    fairness = models.CharField(
        max_length=10,
        choices=Fairness,
        default=Fairness.TURNS,
        db_default=Fairness.TURNS,
        help_text=_("By share, a channel has no turn while it holds its share of the leases and another one waits."),
    )
    max_share = models.DecimalField(
        max_digits=6,
        decimal_places=5,
        null=True,
        blank=True,
        help_text=_("The part of the workers' slots that one channel may hold, above 0 and up to 1. Empty: no limit."),
    )
    changed_at = Moment(
        db_default=ClockTimestamp(), editable=False, help_text=_("The time of the last change of its limits.")
    )

    class Meta:
        db_table = "pgqueue_queue"
        ordering = ["name"]
        # The index has only queues whose settings differ from those of a queue without a row; it is mostly empty.
        indexes = [
            models.Index(
                fields=["name"],
                name="pgqueue_queue_special",
                condition=Q(events=True) | ~Q(archive="full") | ~Q(max_concurrency=None) | ~Q(max_share=None),
            )
        ]
        constraints = [
            models.CheckConstraint(condition=~Q(name=""), name="pgqueue_queue_named"),
            models.CheckConstraint(
                condition=Q(max_concurrency=None) | Q(max_concurrency__gte=1), name="pgqueue_queue_max_concurrency"
            ),
            models.CheckConstraint(
                condition=Q(release_interval=None) | Q(release_interval__gt="00:00:00"),
                name="pgqueue_queue_release_interval",
            ),
            models.CheckConstraint(condition=Q(release_burst__gte=1), name="pgqueue_queue_release_burst"),
            models.CheckConstraint(
                condition=Q(max_share=None) | Q(max_share__gt=0, max_share__lte=1), name="pgqueue_queue_max_share"
            ),
        ]
        permissions = [
            ("pause_queue", "Can pause and resume queues"),
            ("purge_queue", "Can purge queues"),
            ("drop_queue", "Can drop queues"),
        ]
        triggers = [
            RunsFunction(
                name="queue_changed",
                operation=pgtrigger.Update,
                referencing=pgtrigger.Referencing(old="old_queues", new="new_queues"),  # type: ignore[no-untyped-call]  # pgtrigger has no types here
            )
        ]

    def __str__(self) -> str:
        return self.name
