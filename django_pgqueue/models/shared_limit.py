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
    created_at = Moment(db_default=ClockTimestamp(), editable=False)

    class Meta:
        db_table = "pgqueue_limit"
        ordering = ["name"]
        verbose_name = _("shared limit")
        verbose_name_plural = _("shared limits")
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
