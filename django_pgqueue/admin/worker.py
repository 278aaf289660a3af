"""Show workers, as they last described themselves. They can be paused."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import BooleanField, ExpressionWrapper, F, Q, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering
from django_pgqueue.admin.actions import PausableAdmin
from django_pgqueue.admin.base import MAX_BIGINT, ReadOnlyAdmin, column
from django_pgqueue.admin.confirmation import ReasonForm
from django_pgqueue.admin.filters import ChoiceFilter
from django_pgqueue.conf import settings
from django_pgqueue.models import Message, Worker
from django_pgqueue.models.expressions import ClockTimestamp
from django_pgqueue.models.fields import Span

KINDS: dict[Any, str] = {Worker.State.STARTING: "late", Worker.State.RUNNING: "good", Worker.State.STOPPING: "late"}
TOTALS = {
    "completed": _("completed"),
    "deferred": _("deferred"),
    "retried": _("retried"),
    "dead_lettered": _("dead-lettered"),
    "cancelled": _("cancelled"),
    "given_back": _("given back unstarted"),
    "lease_lost": _("lease lost"),
}


def lasting(value: object) -> str:
    """Return seconds of a JSON value as a duration; a dash if there are none."""
    return str(rendering.seconds_text(value)) if isinstance(value, int | float) else "-"


def pause(name: str, *, reason: str, until: None, using: str) -> None:
    """Pause a worker; a pause that it has keeps its beginning."""
    row = Worker.objects.using(using).filter(pk=name)
    row.update(paused_at=Coalesce("paused_at", ClockTimestamp()), pause_reason=reason)


def resume(name: str, *, using: str) -> None:
    """End the pause of a worker."""
    Worker.objects.using(using).filter(pk=name).update(paused_at=None, pause_reason="")


class AliveFilter(ChoiceFilter):
    title, parameter_name = _("alive"), "alive"
    options = {"yes": (_("alive"), Q(is_alive=True)), "no": (_("silent"), Q(is_alive=False))}


@admin.register(Worker)
class WorkerAdmin(PausableAdmin, ReadOnlyAdmin):
    """Show workers. One that was silent for longer than LEASE has lost its messages: they are delivered to others."""

    list_display = ["name_shown", "alive", "state_now", "queues_shown", "busy", "heartbeat", "memory", "started"]
    list_display += ["version"]
    list_filter = [AliveFilter]
    search_fields = ["name"]
    sortable_by = ["name_shown", "started"]
    actions = ["pause", "resume"]
    verbs = {"pause": pause, "resume": resume}
    pause_form = ReasonForm
    pause_consequence = _("They take no more messages until you resume them, and finish the messages that they have.")
    fields = ["name", "alive", "state_now", "supervisor", "hostname", "pid", "queues_shown", "concurrency", "held"]
    fields += ["running_shown", "totals_shown", "memory", "version", "started_at", "heartbeat_at"]
    fields += ["paused_at", "pause_reason"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        # Use the clock that wrote heartbeat_at; this host's may be wrong.
        age = ExpressionWrapper(ClockTimestamp() - F("heartbeat_at"), output_field=Span())
        is_alive = ExpressionWrapper(Q(silent_for__lte=settings.LEASE), output_field=BooleanField())
        found: QuerySet[Worker] = super().get_queryset(request).annotate(silent_for=age, is_alive=is_alive)
        return found

    @admin.display(description=_("alive"), boolean=True)
    def alive(self, worker: Any) -> bool:
        return bool(worker.is_alive)

    @admin.display(description=_("queues"))
    def queues_shown(self, worker: Worker) -> str:
        """Return the names of the queues that the worker serves, with commas between them."""
        queues = worker.queues if isinstance(worker.queues, list) else [worker.queues]
        return ", ".join(str(queue) for queue in queues)

    @admin.display(description=_("state"))
    def state_now(self, worker: Worker) -> str:
        """Return a badge: paused with its reason, or the state of the worker's last heartbeat."""
        if worker.paused_at:
            return rendering.pause_badge(worker.pause_reason)
        return rendering.badge(worker.get_state_display(), KINDS.get(worker.state, "bad"))

    @admin.display(description=_("busy"))
    def busy(self, worker: Worker) -> str:
        """Return how many messages the worker runs, and how many it can run at once."""
        running = len(worker.running) if isinstance(worker.running, list) else 0
        return f"{running}\N{NO-BREAK SPACE}/\N{NO-BREAK SPACE}{worker.concurrency}"

    started = column(_("started"), lambda worker: rendering.at(worker.started_at), ordering="started_at")
    heartbeat = column(_("last heartbeat"), lambda worker: _("%s ago") % rendering.duration(worker.silent_for))

    @admin.display(description=_("messages"))
    def held(self, worker: Worker) -> str:
        return self.link(_("messages that it has a lease on"), "message_changelist", worker=worker.name)

    @admin.display(description=_("running"))
    def running_shown(self, worker: Worker) -> str:
        """Return the running messages as a table, the longest running first; JSON of another shape as it is stored."""
        entries = worker.running
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            return rendering.pretty_json(entries)
        if not entries:
            return str(_("nothing"))
        channels = self.channels_of([entry.get("id") for entry in entries], worker)
        rows = [
            [
                self.link(f"#{entry.get('id')}", "message_change", entry.get("id")),
                channels.get(str(entry.get("id")), "-"),
                lasting(entry.get("seconds")),
                lasting(entry.get("seconds_left")),
            ]
            for entry in entries
        ]
        return rendering.table([_("message"), _("channel"), _("runs for"), _("time left")], rows)

    def channels_of(self, ids: list[Any], worker: Worker) -> dict[str, str]:
        """Return links to the channels of running messages by message id. A worker's row may hold anything."""
        numbers = [pk for pk in ids if type(pk) is int and 0 < pk <= MAX_BIGINT]
        rows = Message.objects.using(worker._state.db).filter(pk__in=numbers)
        found = rows.values_list("pk", "channel_id", "channel__queue", "channel__name")
        return {
            str(pk): self.link(rendering.name(f"{queue}/{name}"), "channel_tenant", channel)
            for pk, channel, queue, name in found
        }

    @admin.display(description=_("totals"))
    def totals_shown(self, worker: Worker) -> str:
        """Return the outcomes since the worker started as a table; JSON of another shape as it is stored."""
        totals = worker.totals
        if not isinstance(totals, dict):
            return rendering.pretty_json(totals)
        known = [event for event in TOTALS if event in totals]
        events = [*known, *sorted(totals.keys() - TOTALS.keys())]
        rows = [[str(TOTALS.get(event, event)), rendering.number(totals[event])] for event in events]
        return rendering.table([_("outcome"), _("messages")], rows)

    @admin.display(description=_("memory"))
    def memory(self, worker: Worker) -> str:
        return "-" if worker.memory_bytes is None else filesizeformat(worker.memory_bytes)
