from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_pgqueue.models.fields import Moment, Span


class ArchivePolicy(models.TextChoices):
    """The parts of a settled message that the archive keeps. A dead letter is always kept whole."""

    FULL = "full", _("everything")
    OUTCOME = "outcome", _("the outcome, no payload")
    NONE = "none", _("nothing")


class Queue(models.Model):
    """The settings of a whole queue. A queue without a row is not paused, archives everything and sends no events."""

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

    class Meta:
        db_table = "pgqueue_queue"
        ordering = ["name"]
        # The index has only queues whose settings differ from those of a queue without a row; it is mostly empty.
        indexes = [
            models.Index(fields=["name"], name="pgqueue_queue_special", condition=Q(events=True) | ~Q(archive="full"))
        ]
        constraints = [models.CheckConstraint(condition=~Q(name=""), name="pgqueue_queue_named")]
        permissions = [
            ("pause_queue", "Can pause and resume queues"),
            ("purge_queue", "Can purge queues"),
            ("drop_queue", "Can drop queues"),
        ]

    def __str__(self) -> str:
        return self.name
