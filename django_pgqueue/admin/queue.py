"""Show queues: pause, resume, purge and drop them; set their limits, what they archive, and their events."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue.admin import rendering
from django_pgqueue.admin.channel_form import QueueForm
from django_pgqueue.admin.confirmation import COUNTED, SHOWN_ROWS, confirm, is_confirmed
from django_pgqueue.admin.filters import QUEUES
from django_pgqueue.admin.forgiving import ForgivingAdmin
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.queue_drop import QueueDropped, queue_drop
from django_pgqueue.lifecycle.queue_pause import queue_pause
from django_pgqueue.lifecycle.queue_purge import queue_purge
from django_pgqueue.lifecycle.queue_resume import queue_resume
from django_pgqueue.lifecycle.queue_set import queue_set
from django_pgqueue.models import Channel, Message, Queue
from django_pgqueue.models.queue import Fairness
from django_pgqueue.sql.call import call

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MOST_QUEUES = 1_000
BATCH_MESSAGES = 10_000
"""The most messages of one transaction."""
MOST_BATCHES = 20
"""The limit per queue and request: producers may be faster than a purge, and a request must end."""


class DropForm(forms.Form):
    purge = forms.BooleanField(
        label=_("Purge waiting messages"),
        required=False,
        help_text=_("They go to the archive as purged. Otherwise a queue that holds messages is not dropped."),
    )


@admin.register(Queue)
class QueueAdmin(ForgivingAdmin):
    form = QueueForm
    list_display = ["name_shown", "state", "limits_shown", "archive", "events"]
    search_fields = ["name"]
    sortable_by = ["name_shown"]
    fields = [
        "name",
        "archive",
        "retention",
        "dead_letter_retention",
        "events",
        "max_concurrency",
        "release_interval",
        "release_burst",
        "fairness",
        "max_share",
        "paused_at",
        "paused_until",
        "pause_reason",
    ]
    readonly_fields = ["name", "paused_at", "paused_until", "pause_reason"]
    actions = ["pause", "resume", "purge", "drop", "forgive"]
    pause_consequence = _(
        "No more messages of these queues are delivered to any worker until you resume them. Enqueue goes on."
    )

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        self.add_missing()
        return super().changelist_view(request, extra_context)

    def add_missing(self) -> None:
        """Add a row for each queue that has channels and was not dropped. Only this page needs the row of a queue
        without settings."""
        queues = Queue.objects.using(alias(None))
        known = set(queues.values_list("name", flat=True))
        found = [name for (name,) in call(alias(None), QUEUES, (MOST_QUEUES,))]
        channels = Channel.objects.using(alias(None)).filter(released_at=None)
        missing = [name for name in found if name not in known and channels.filter(queue=name).exists()]
        queues.bulk_create([Queue(name=name) for name in missing], ignore_conflicts=True)

    def save_model(self, request: HttpRequest, obj: Queue, form: forms.ModelForm, change: bool) -> None:
        # Save only the edited fields, because the queue may have been paused since the form was opened.
        obj.save(using=alias(None), update_fields=form.changed_data)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: a queue exists when it has a channel."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Queue | None = None) -> bool:
        return False

    @admin.display(description=_("name"), ordering="name")
    def name_shown(self, queue: Queue) -> str:
        return rendering.name(queue.name)

    @admin.display(description=_("state"))
    def state(self, queue: Queue) -> str:
        """Return a badge: paused with its reason and end, or open."""
        if queue.paused_at:
            return rendering.pause_badge(queue.pause_reason, queue.paused_until)
        return rendering.badge(_("open"), "good")

    @admin.display(description=_("limits"), empty_value="-")
    def limits_shown(self, queue: Queue) -> str | None:
        """Return the limits and the fairness of the queue in one line; None if it has the defaults."""
        limits = []
        if queue.max_concurrency is not None:
            limits.append(_("%d at once") % queue.max_concurrency)
        if queue.release_interval is not None:
            limits.append(_("1 per %s") % rendering.duration(queue.release_interval))
        if queue.release_interval is not None and queue.release_burst > 1:
            limits.append(_("burst %d") % queue.release_burst)
        if queue.fairness != Fairness.TURNS:
            limits.append(queue.get_fairness_display())
        if queue.max_share is not None:
            limits.append(_("at most %s for one channel") % f"{float(queue.max_share):.4g}")
        return format_html('<span class="pgqueue-limits">{}</span>', ", ".join(map(str, limits))) if limits else None

    def pause_one(self, item: Queue, reason: str, *, until: datetime | None, using: str) -> None:
        queue_pause(item.name, reason=reason, until=until, using=using)

    def resume_one(self, item: Queue, *, using: str) -> None:
        queue_resume(item.name, using=using)

    def forgive_one(self, item: Queue, *, using: str) -> None:
        queue_set(item.name, forgive=True, using=using)

    def actions_on(self, item: Queue) -> dict[str, StrOrPromise]:
        return super().actions_on(item) | {"purge": _("Purge"), "drop": _("Drop")}

    def has_purge_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.purge_queue")

    def has_drop_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.drop_queue")

    @admin.action(description=_("Purge selected queues"), permissions=["purge"])
    def purge(self, request: HttpRequest, queryset: QuerySet[Queue]) -> HttpResponse | None:
        """Ask for confirmation, then archive the waiting messages of the queues as purged.

        One request purges at most MOST_BATCHES × BATCH_MESSAGES messages of a queue, and warns if more are left.
        Returns the confirmation page, or None when done.
        """
        if not is_confirmed(request):
            return confirm(
                self,
                request,
                queryset,
                action="purge",
                title=_("Purge queues"),
                consequence=_(
                    "All ready and scheduled messages of these queues go to the archive as purged, without being "
                    "handled. Leased messages stay with their workers."
                ),
                button=_("Purge"),
                rows=self.waiting(queryset),
            )
        removed: list[int] = []

        def act(queue: Queue) -> str:
            removed.append(queue_purge(queue=queue.name, limit=BATCH_MESSAGES, using=queryset.db))
            return _("Purged %d messages.") % removed[-1]

        for queue in list(queryset):
            for _batch in range(MOST_BATCHES):
                if not self.apply(request, [queue], act, using=queryset.db) or removed[-1] < BATCH_MESSAGES:
                    break
            else:
                self.message_user(request, _("More messages wait: purge again."), messages.WARNING)
        total = sum(removed)
        self.show_count(request, ngettext("%d message is purged.", "%d messages are purged.", total), total)
        return None

    @admin.action(description=_("Drop selected queues"), permissions=["drop"])
    def drop(self, request: HttpRequest, queryset: QuerySet[Queue]) -> HttpResponse | None:
        """Ask for confirmation, then drop the queues, in steps.

        With the option ``purge``, their waiting messages are archived as purged; without it, a queue with messages is
        refused. One request takes at most MOST_BATCHES steps for a queue, and warns if it is not dropped yet. Returns
        the confirmation page, or None when done.
        """
        if not is_confirmed(request):
            return confirm(
                self,
                request,
                queryset,
                action="drop",
                title=_("Drop queues"),
                consequence=_(
                    "These queues are removed with their channels and schedules: enqueue fails for them. A queue whose "
                    "messages are leased is left as it is. The archive and the dead letters stay."
                ),
                button=_("Drop"),
                rows=self.waiting(queryset),
                form=DropForm(),
            )
        purge = DropForm(request.POST).data.get("purge") == "on"
        steps: list[QueueDropped] = []

        def act(queue: Queue) -> str:
            step = queue_drop(queue=queue.name, purge=purge, limit=BATCH_MESSAGES, using=queryset.db)
            steps.append(step)
            text = _("%(messages)d messages purged, %(channels)d channels released, %(schedules)d schedules deleted.")
            return text % {"messages": step.messages, "channels": step.channels, "schedules": step.schedules}

        for queue in list(queryset):
            for _batch in range(MOST_BATCHES):
                if not self.apply(request, [queue], act, using=queryset.db) or steps[-1].done:
                    break
            else:
                self.message_user(request, _("%s is not dropped yet: drop it again.") % queue, messages.WARNING)
        done = sum(step.done for step in steps)
        self.show_count(request, ngettext("%d queue is dropped.", "%d queues are dropped.", done), done)
        return None

    def waiting(self, queues: QuerySet[Queue]) -> list[tuple[str, str]]:
        """Return the name of each queue and how many ready and scheduled messages it has, counted up to COUNTED."""
        live = Message.objects.using(queues.db).exclude(status=Message.Status.LEASED)
        counts = {
            queue.name: live.filter(channel__queue=queue.name)[: COUNTED + 1].count() for queue in queues[:SHOWN_ROWS]
        }
        return [
            (name, _("%s wait") % (f"{count:,}" if count <= COUNTED else f"{COUNTED:,}+"))
            for name, count in counts.items()
        ]
