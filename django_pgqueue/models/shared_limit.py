from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.models.fields import Moment, Span
from django_pgqueue.models.triggers import RunsFunction


class SharedLimit(models.Model):
    """A limit that messages of any channel and queue share, for all workers together.

    Edit it and save: it holds from the next lease on.
    """

    name = models.CharField(max_length=200, unique=True, db_collation="C")
    max_concurrency = models.PositiveIntegerField(
        null=True, blank=True, help_text=_("Messages that may be leased at the same time. Empty: no limit.")
    )
    max_cost = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text=_("The cost of all messages that are leased at the same time. Empty: no limit."),
    )
    release_interval = Span(
        null=True, blank=True, help_text=_("One token comes in this time; a message takes its cost. Empty: no limit.")
    )
    release_burst = models.PositiveIntegerField(
        default=1, db_default=1, help_text=_("Tokens that may be saved up, so that many come at once.")
    )
    paused_at = Moment(null=True, blank=True)
    pause_reason = models.TextField(blank=True, default="", db_default="")
    paused_until = Moment(null=True, blank=True, help_text=_("The time at which the sweep ends the pause."))
    breaker_handler = models.CharField(
        max_length=200, null=True, editable=False, help_text=_("The handler whose breaker it is.")
    )
    breaker_failures = models.PositiveIntegerField(
        null=True, editable=False, help_text=_("It opens after so many failures in a row.")
    )
    breaker_within = Span(null=True, editable=False, help_text=_("The failures count when all are within this time."))
    breaker_pause = Span(null=True, editable=False, help_text=_("One message tries after this time."))
    per = models.CharField(
        max_length=10,
        null=True,
        blank=True,
        choices={"channel": _("one for each channel")},
        help_text=_("Each channel has the limit for itself, or all channels share it."),
    )
    parent_id = models.BigIntegerField(
        null=True, editable=False, help_text=_("The limit, or the breaker of a handler, that this channel's row is of.")
    )
    channel_id = models.BigIntegerField(null=True, editable=False, help_text=_("The channel that has this row."))
    opened_at = Moment(null=True, editable=False)
    open_until = Moment(
        null=True, editable=False, help_text=_("It is open, and one message at a time may try after this time.")
    )
    closed_at = Moment(null=True, editable=False)
    openings = models.BigIntegerField(default=0, db_default=0, editable=False, help_text=_("How often it has opened."))
    created_at = Moment(db_default=ClockTimestamp(), editable=False)

    class Meta:
        db_table = "pgqueue_limit"
        ordering = ["name"]
        verbose_name = _("shared limit")
        verbose_name_plural = _("shared limits")
        indexes = [
            # pgqueue_tick looks for pauses that are over.
            models.Index(
                fields=["paused_until"], name="pgqueue_limit_paused_until", condition=Q(paused_until__isnull=False)
            ),
            # What is declared, among the rows of a hundred thousand channels; and what one channel has.
            models.Index(fields=["name"], name="pgqueue_limit_declared", condition=Q(parent_id__isnull=True)),
            models.Index(fields=["channel_id"], name="pgqueue_limit_channel", condition=Q(channel_id__isnull=False)),
        ]
        constraints = [
            models.CheckConstraint(condition=~Q(name=""), name="pgqueue_limit_named"),
            models.CheckConstraint(
                condition=Q(max_concurrency=None) | Q(max_concurrency__gte=1), name="pgqueue_limit_max_concurrency"
            ),
            models.CheckConstraint(condition=Q(max_cost=None) | Q(max_cost__gte=1), name="pgqueue_limit_max_cost"),
            models.CheckConstraint(
                condition=Q(release_interval=None) | Q(release_interval__gt="00:00:00"),
                name="pgqueue_limit_release_interval",
            ),
            models.CheckConstraint(condition=Q(release_burst__gte=1), name="pgqueue_limit_release_burst"),
            models.CheckConstraint(
                condition=Q(breaker_failures=None)
                | Q(max_concurrency=None, max_cost=None, release_interval=None, paused_at=None),
                name="pgqueue_limit_breaker",
            ),
            models.UniqueConstraint(
                fields=["parent_id", "channel_id"],
                condition=Q(parent_id__isnull=False),
                name="pgqueue_limit_parent_channel",
            ),
        ]
        permissions = [("pause_sharedlimit", "Can pause and resume shared limits")]
        triggers = [
            RunsFunction(
                name="limit_changed",
                operation=pgtrigger.Update,
                referencing=pgtrigger.Referencing(old="old_limits", new="new_limits"),  # type: ignore[no-untyped-call]  # pgtrigger has no types here
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_of_channel(self) -> bool:
        """Return whether it is the row of a channel, of a shared limit that is one for each channel."""
        return self.parent_id is not None and self.breaker_failures is None
