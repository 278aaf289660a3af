from __future__ import annotations

from datetime import timedelta
from typing import Any

import pgtrigger
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import DEFAULT_DB_ALIAS, models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from django_pgqueue import codecs
from django_pgqueue.exceptions import InvalidSchedule
from django_pgqueue.models.channel import Channel
from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.models.fields import Json, Moment, Span
from django_pgqueue.models.triggers import RunsFunction
from django_pgqueue.timetable import LONGEST, SHORTEST, Timetable


def project_time_zone() -> str:
    """Return the setting TIME_ZONE; UTC if it is empty."""
    return settings.TIME_ZONE or "UTC"


class Schedule(models.Model):
    """Define a schedule, which enqueues a message at each tick, once per tick.

    It is made in the admin, or declared in code with @schedule.

    Edit and save: after a change of its times, or when it is enabled again, the next tick is planned from now on.
    """

    class Missed(models.TextChoices):
        SKIP = "skip", _("skip them")
        ONCE = "once", _("fire the newest")
        ALL = "all", _("fire all, up to the limit")

    loaded_from: tuple[str | None, str | None] = (None, None)
    """Queue and channel when the row was loaded: its payload is encoded for these."""

    name = models.CharField(max_length=150, unique=True)
    handler = models.CharField(max_length=200)
    queue = models.CharField(max_length=100, default="default", db_default="default")
    channel = models.CharField(max_length=200, default="default", db_default="default")
    payload = Json(default=dict, db_default={}, null=True, blank=True)
    headers = Json(null=True, blank=True, help_text=_("The schedule's name and the tick are added: schedule, tick_at."))
    priority = models.SmallIntegerField(default=0, db_default=0, help_text=_("Higher first, within the channel."))
    cron = models.CharField(
        max_length=200,
        null=True,
        blank=True,
        help_text=_("Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly, @yearly."),
    )
    every = Span(null=True, blank=True, help_text=_("An interval in place of a cron expression, at least a second."))
    time_zone = models.CharField(
        max_length=100,
        default=project_time_zone,
        db_default="UTC",
        help_text=_("The time zone whose wall clock the cron expression follows."),
    )
    enabled = models.BooleanField(default=True, db_default=True)
    missed = models.CharField(
        max_length=10,
        choices=Missed,
        default=Missed.SKIP,
        db_default=Missed.SKIP,
        help_text=_("How ticks are treated at which no worker ran."),
    )
    missed_limit = models.PositiveIntegerField(
        default=100,
        db_default=100,
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text=_("The most missed ticks that fire later."),
    )
    grace = Span(
        default=timedelta(minutes=1),
        db_default=timedelta(minutes=1),
        help_text=_("A tick that is late by no more than this is not missed: it fires."),
    )
    overlap = models.BooleanField(
        default=True,
        db_default=True,
        help_text=_("Off: a tick makes no message while the message of an earlier one is live."),
    )
    next_fire_at = Moment(null=True, editable=False)
    last_fired_at = Moment(null=True, editable=False)
    last_error = models.TextField(editable=False, default="", db_default="")
    declared_in = models.CharField(
        max_length=200, editable=False, default="", db_default="", help_text=_("The module that declares it.")
    )
    removed_at = Moment(
        null=True, editable=False, help_text=_("Since then the code no longer declares it; it does not fire.")
    )
    created_at = Moment(db_default=ClockTimestamp(), editable=False)

    class Meta:
        db_table = "pgqueue_schedule"
        ordering = ["name"]
        indexes = [
            models.Index(
                fields=["next_fire_at"], name="pgqueue_schedule_due", condition=Q(enabled=True, removed_at=None)
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=~Q(name="") & ~Q(handler="") & ~Q(queue="") & ~Q(channel=""), name="pgqueue_schedule_named"
            ),
            models.CheckConstraint(
                condition=Q(cron__isnull=False, every=None) | Q(cron=None, every__isnull=False),
                name="pgqueue_schedule_when",
            ),
            models.CheckConstraint(
                condition=Q(every=None) | Q(every__range=(SHORTEST, LONGEST)), name="pgqueue_schedule_every"
            ),
            models.CheckConstraint(condition=Q(missed__in=["skip", "once", "all"]), name="pgqueue_schedule_missed"),
            models.CheckConstraint(condition=Q(missed_limit__range=(1, 1000)), name="pgqueue_schedule_missed_limit"),
            models.CheckConstraint(condition=Q(grace__gte=timedelta(0)), name="pgqueue_schedule_grace"),
        ]
        permissions = [("run_schedule", "Can run schedules now")]
        triggers = [
            RunsFunction(
                name="schedule_changed",
                level=pgtrigger.Row,
                when=pgtrigger.Before,
                operation=pgtrigger.UpdateOf("cron", "every", "time_zone", "enabled"),  # type: ignore[no-untyped-call]  # pgtrigger has no types here
                condition=pgtrigger.AnyChange("cron", "every", "time_zone", "enabled"),
            )
        ]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def from_db(cls, db: str | None, field_names: Any, values: Any, **more: Any) -> Schedule:
        row = super().from_db(db, field_names, values, **more)
        row.loaded_from = (row.__dict__.get("queue"), row.__dict__.get("channel"))
        return row

    def save(self, *args: Any, using: str | None = None, **kwargs: Any) -> None:
        self.seal(using or self._state.db or DEFAULT_DB_ALIAS)
        super().save(*args, using=using, **kwargs)

    def seal(self, using: str) -> None:
        """Encode the payload by the setting PAYLOAD_CODEC, for the channel that it goes to. Raises what a codec
        raises."""
        if codecs.current() is None or "payload" not in self.__dict__:
            return
        before = self.loaded_from
        if codecs.is_sealed(self.payload) and None not in before and before != (self.queue, self.channel):
            self.payload = self.opened_payload(using, *before)
        self.payload = codecs.sealed_value(self.payload, self.place(using, self.queue, self.channel))

    def opened_payload(self, using: str, queue: str | None = None, channel: str | None = None) -> Any:
        """Return the payload as handlers get it. Raises what a codec raises."""
        return codecs.opened(self.payload, self.place(using, queue or self.queue, channel or self.channel))

    def place(self, using: str, queue: str, channel: str) -> codecs.Place:
        """Return the place of a payload, for its codec. The channel's context is read when the codec asks for it."""

        def context() -> Any:
            found = Channel.objects.using(using).filter(queue=queue, name=channel).values_list("context", flat=True)
            return found.first() or {}

        return codecs.Place(queue, channel, context)

    @property
    def timetable(self) -> Timetable:
        return Timetable(self.cron, self.every, self.time_zone)

    def clean(self) -> None:
        if self.declared_in:
            # The declaration was checked in code, and the admin cannot edit it.
            return
        try:
            self.timetable.check()
        except InvalidSchedule as error:
            raise ValidationError({error.field: str(error)}) from error


class ScheduleTick(models.Model):
    """A tick that fired: unique, so that no tick fires twice. It remains after its schedule is deleted, until it is
    pruned."""

    class TickOutcome(models.TextChoices):
        CREATED = "created", _("enqueued")
        DUPLICATE = "duplicate", _("the message of an earlier tick is live")
        DROPPED = "dropped", _("dropped: the channel is full")
        REFUSED = "refused", _("refused")

    schedule = models.CharField(max_length=150)
    tick_at = Moment()
    fired_at = Moment(db_default=ClockTimestamp())
    by_hand = models.BooleanField(db_default=False, default=False)
    outcome = models.CharField(max_length=10, choices=TickOutcome)
    message_id = models.BigIntegerField(null=True)
    error = models.TextField(default="", db_default="")

    class Meta:
        db_table = "pgqueue_schedule_tick"
        constraints = [models.UniqueConstraint(fields=["schedule", "tick_at"], name="pgqueue_schedule_tick_once")]
        indexes = [models.Index(fields=["fired_at"], name="pgqueue_schedule_tick_fired")]

    def __str__(self) -> str:
        return f"{self.schedule} {self.tick_at}"
