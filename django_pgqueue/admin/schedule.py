"""Show schedules, made here or declared in code: when they fire, and the last ticks."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.contrib import admin, messages
from django.db.models import DateTimeField, ExpressionWrapper, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue import schedule_run
from django_pgqueue.admin import rendering
from django_pgqueue.admin.actions import ObjectActionsAdmin
from django_pgqueue.admin.base import Text, needs
from django_pgqueue.admin.confirmation import Question, confirm, is_confirmed
from django_pgqueue.admin.filters import QueueFilter, ScheduleStateFilter
from django_pgqueue.admin.forms import ScheduleForm
from django_pgqueue.exceptions import InvalidSchedule
from django_pgqueue.models import Schedule, ScheduleTick
from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.sql.call import alias

UPCOMING_TICKS = 5
PAST_TICKS = 10
KINDS: dict[Any, str] = {
    ScheduleTick.TickOutcome.CREATED: "good",
    ScheduleTick.TickOutcome.DUPLICATE: "late",
    ScheduleTick.TickOutcome.DROPPED: "late",
    ScheduleTick.TickOutcome.REFUSED: "bad",
}
RUN_NOW = Question(
    "run_now",
    _("Run schedules now"),
    _("Each schedule enqueues a message now, even if it is disabled. Its next times stay as they are."),
    _("Run now"),
)


@admin.register(Schedule)
class ScheduleAdmin(ObjectActionsAdmin):
    form = ScheduleForm
    list_display = ["name_shown", "when", "next_shown", "state", "what", "last_fired_at"]
    list_filter = [ScheduleStateFilter, QueueFilter]
    list_per_page = 50
    search_fields = ["name", "handler"]
    sortable_by = ["name_shown", "what", "next_shown", "last_fired_at"]
    actions = ["run_now", "enable", "disable"]
    big_columns = ("payload", "headers")
    computed = ["state", "upcoming", "last_fired_at", "ticks", "channel_shown", "origin", "created_at"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Schedule]:
        # Use the clock of the database, which decides what is due; this host's may be wrong.
        now = ExpressionWrapper(ClockTimestamp(), output_field=DateTimeField())
        found: QuerySet[Schedule] = super().get_queryset(request).annotate(now=now)
        return found

    def get_fieldsets(self, request: HttpRequest, obj: Schedule | None = None) -> Any:
        fieldsets = [
            (None, {"fields": ["name", "enabled"]}),
            (_("When"), {"fields": ["cron", "every", "time_zone"]}),
            (_("Message"), {"fields": ["handler", "payload", "headers", "queue", "channel", "priority"]}),
            (_("Late and missed ticks"), {"fields": ["grace", "missed", "missed_limit", "overlap"]}),
        ]
        if obj is not None:
            fieldsets.insert(1, (_("Now"), {"fields": self.computed}))
        return fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Schedule | None = None) -> list[str]:
        """Return the read-only fields. A declared schedule is overwritten each time a worker starts, so an edit would
        not last."""
        if obj is None:
            return []
        if not obj.declared_in:
            return ["name", *self.computed]
        names = [name for _title, part in self.get_fieldsets(request, obj) for name in part["fields"]]
        return [name for name in names if name != "enabled"]

    def save_model(self, request: HttpRequest, obj: Schedule, form: forms.ModelForm, change: bool) -> None:
        # Save only the edited fields, because the schedule may have fired since the form was opened.
        obj.save(using=alias(None), update_fields=form.changed_data if change else None)

    has_run_permission = needs("run_schedule")

    @admin.display(description=_("handler, channel"), ordering="handler")
    def what(self, schedule: Schedule) -> str:
        return rendering.line(schedule.handler, self.channel_shown(schedule))

    @admin.display(description=_("its channel"))
    def channel_shown(self, schedule: Schedule) -> str:
        return self.link_to_channel(schedule.queue, schedule.channel)

    @admin.display(description=_("when"))
    def when(self, schedule: Schedule) -> str:
        """Return the interval, or the cron expression with its time zone if that is not the project's."""
        if schedule.every is not None:
            return _("every %s") % rendering.duration(schedule.every)
        zone = "" if schedule.time_zone == timezone.get_default_timezone_name() else schedule.time_zone
        return format_html('<code>{}</code> <span class="quiet">{}</span>', schedule.cron, zone)

    @admin.display(description=_("state"))
    def state(self, schedule: Schedule) -> str:
        """Return a badge: removed from code, disabled, failing with its last error, or enabled."""
        if schedule.removed_at:
            return rendering.badge(_("removed from code"), "late")
        if not schedule.enabled:
            return rendering.badge(_("disabled"), "late")
        if schedule.last_error:
            text = format_html('<span class="quiet pgqueue-clip">{}</span>', schedule.last_error[:200])
            return format_html("{} {}", rendering.badge(_("failing"), "bad"), text)
        return rendering.badge(_("enabled"), "good")

    @admin.display(description=_("next"), ordering="next_fire_at", empty_value="-")
    def next_shown(self, schedule: Any) -> str | None:
        """Return the time until the next tick by the database's clock, or since it was due; None if none comes."""
        if not schedule.enabled or schedule.removed_at or not schedule.next_fire_at:
            return None
        left = schedule.next_fire_at - schedule.now
        if left.total_seconds() < 0:
            return format_html('{} <span class="quiet">{}</span>', _("due"), rendering.duration(-left))
        return format_html('<span class="pgqueue-next">{}</span>', _("in %s") % rendering.duration(left))

    @admin.display(description=_("made"))
    def origin(self, schedule: Schedule) -> str:
        return str(_("in %s") % schedule.declared_in if schedule.declared_in else _("by hand"))

    @admin.display(description=_("next times"))
    def upcoming(self, schedule: Any) -> str:
        """Return the next planned times, also for a disabled schedule."""
        try:
            moments = schedule.timetable.upcoming(schedule.now, UPCOMING_TICKS, tick=schedule.next_fire_at)
        except InvalidSchedule as error:
            return rendering.badge(str(error), "bad")
        zone = ZoneInfo(schedule.time_zone)
        rows = [
            (
                date_format(moment.astimezone(zone), "D, j M Y, H:i:s"),
                _("in %s") % rendering.duration(moment - schedule.now),
            )
            for moment in moments
        ]
        shown = format_html_join("", '<li>{} <span class="quiet">{}</span></li>', rows)
        return format_html('<ul class="pgqueue-times">{}</ul><span class="quiet">{}</span>', shown, schedule.time_zone)

    @admin.display(description=_("last ticks"))
    def ticks(self, schedule: Schedule) -> str:
        """Return the last PAST_TICKS ticks with their time, outcome and message."""
        ticks = ScheduleTick.objects.using(alias(None)).filter(schedule=schedule.name).order_by("-tick_at")[:PAST_TICKS]
        rows = [
            (
                date_format(timezone.localtime(tick.tick_at), "DATETIME_FORMAT"),
                rendering.badge(tick.get_outcome_display(), KINDS.get(tick.outcome, "bad")),
                self.what_came(tick),
            )
            for tick in ticks
        ]
        if not rows:
            return self.get_empty_value_display()
        return format_html('<ul class="pgqueue-times">{}</ul>', format_html_join("", "<li>{} {} {}</li>", rows))

    def what_came(self, tick: ScheduleTick) -> str:
        """Return what a tick led to: whether it was run by hand, its message, its error."""
        parts: list[object] = [_("by hand")] if tick.by_hand else []
        if tick.message_id is not None:
            parts.append(_("message %d") % tick.message_id)
        if tick.error:
            parts.append(tick.error)
        return format_html('<span class="quiet">{}</span>', " · ".join(str(part) for part in parts))

    def actions_on(self, item: Schedule) -> dict[str, Text]:
        run: dict[str, Text] = {"run_now": _("Run now")}
        if item.removed_at:
            return run
        return run | ({"disable": _("Disable")} if item.enabled else {"enable": _("Enable")})

    @admin.action(description=_("Run selected schedules now"), permissions=["run"])
    def run_now(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> HttpResponse | None:
        """Ask for confirmation, then enqueue a message of each schedule now. Its next ticks stay as they are.

        Warns of the schedules that enqueued nothing. Returns the confirmation page, or None when done.
        """
        if not is_confirmed(request):
            return confirm(self, request, queryset, RUN_NOW)
        made: list[int] = []

        def act(schedule: Schedule) -> str:
            answer = schedule_run(schedule.name, using=queryset.db)
            if not answer.created or answer.id is None:
                return _("Run: no message, %s.") % answer.outcome
            made.append(answer.id)
            return _("Run: message %d.") % answer.id

        done = self.apply(request, queryset, act, using=queryset.db)
        self.show_count(request, ngettext("%d message is enqueued.", "%d messages are enqueued.", len(made)), len(made))
        if len(made) < len(done):
            text = _("%d enqueued nothing: an earlier message is still live, or the channel is full.")
            self.message_user(request, text % (len(done) - len(made)), messages.WARNING)
        return None

    @admin.action(description=_("Enable selected schedules"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        """Enable the schedules that are disabled."""
        done = self.switch(request, queryset, True, _("Enabled."))
        self.show_count(request, ngettext("%d schedule is enabled.", "%d schedules are enabled.", done), done)

    @admin.action(description=_("Disable selected schedules"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        """Disable the schedules that are enabled."""
        done = self.switch(request, queryset, False, _("Disabled."))
        self.show_count(request, ngettext("%d schedule is disabled.", "%d schedules are disabled.", done), done)

    def switch(self, request: HttpRequest, queryset: QuerySet[Schedule], enabled: bool, text: Text) -> int:
        """Set ``enabled`` of the schedules and write ``text`` to the admin's log. Returns how many were changed."""

        def act(schedule: Schedule) -> Text:
            Schedule.objects.using(queryset.db).filter(pk=schedule.pk).update(enabled=enabled)
            return text

        return len(self.apply(request, queryset.exclude(enabled=enabled), act, using=queryset.db))
