"""Show queues: pause, resume, purge and drop them; set their limits, what they archive, and their events."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue import queue_drop, queue_pause, queue_purge, queue_resume, queue_set
from django_pgqueue.admin.actions import MOST_PURGE_BATCHES, PURGE_BATCH_MESSAGES, PurgeableAdmin
from django_pgqueue.admin.base import Text, needs, never
from django_pgqueue.admin.confirmation import COUNTED, SHOWN_ROWS, Question, confirm, is_confirmed
from django_pgqueue.admin.filters import queue_names
from django_pgqueue.admin.forms import QueueForm
from django_pgqueue.lifecycle.queues import QueueDropped
from django_pgqueue.models import Channel, Message, Queue
from django_pgqueue.models.queue import Fairness
from django_pgqueue.sql.call import alias

MOST_QUEUES = 1_000
DROP = Question(
    "drop",
    _("Drop queues"),
    _(
        "These queues are removed with their channels and schedules: enqueue fails for them. A queue whose messages "
        "are leased is left as it is. The archive and the dead letters stay."
    ),
    _("Drop"),
)


class DropForm(forms.Form):
    purge = forms.BooleanField(
        label=_("Purge waiting messages"),
        required=False,
        help_text=_("They go to the archive as purged. Otherwise a queue that holds messages is not dropped."),
    )


@admin.register(Queue)
class QueueAdmin(PurgeableAdmin):
    form = QueueForm
    list_display = ["name_shown", "state", "limits_shown", "archive", "events"]
    search_fields = ["name"]
    sortable_by = ["name_shown"]
    fields = ["name", "archive", "retention", "dead_letter_retention", "events", "max_concurrency", "release_interval"]
    fields += ["release_burst", "fairness", "max_share", "paused_at", "paused_until", "pause_reason"]
    readonly_fields = ["name", "paused_at", "paused_until", "pause_reason"]
    actions = ["pause", "resume", "purge", "drop", "forgive"]
    verbs = {"pause": queue_pause, "resume": queue_resume, "set": queue_set, "purge": queue_purge}
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
        found = queue_names(MOST_QUEUES, using=alias(None))
        channels = Channel.objects.using(alias(None)).filter(released_at=None)
        missing = [name for name in found if name not in known and channels.filter(queue=name).exists()]
        queues.bulk_create([Queue(name=name) for name in missing], ignore_conflicts=True)

    def save_model(self, request: HttpRequest, obj: Queue, form: forms.ModelForm, change: bool) -> None:
        # Save only the edited fields, because the queue may have been paused since the form was opened.
        obj.save(using=alias(None), update_fields=form.changed_data)

    # A queue exists when it has a channel.
    has_add_permission = has_delete_permission = never

    @admin.display(description=_("limits"), empty_value="-")
    def limits_shown(self, queue: Queue) -> str | None:
        """Return the limits and the fairness of the queue in one line; None if it has the defaults."""
        limits = []
        if queue.max_concurrency is not None:
            limits.append(_("%d at once") % queue.max_concurrency)
        limits += self.rate_texts(queue)
        if queue.fairness != Fairness.TURNS:
            limits.append(queue.get_fairness_display())
        if queue.max_share is not None:
            limits.append(_("at most %s for one channel") % f"{float(queue.max_share):.4g}")
        return format_html('<span class="pgqueue-limits">{}</span>', ", ".join(map(str, limits))) if limits else None

    def place(self, item: Queue) -> dict[str, str]:
        return {"queue": item.name}

    def actions_on(self, item: Queue) -> dict[str, Text]:
        return super().actions_on(item) | {"purge": _("Purge"), "drop": _("Drop")}

    has_drop_permission = needs("drop_queue")

    @admin.action(description=_("Drop selected queues"), permissions=["drop"])
    def drop(self, request: HttpRequest, queryset: QuerySet[Queue]) -> HttpResponse | None:
        """Ask for confirmation, then drop the queues, in steps.

        With the option ``purge``, their waiting messages are archived as purged; without it, a queue with messages is
        refused. One request takes at most MOST_PURGE_BATCHES steps for a queue, and warns if it is not dropped yet.
        """
        if not is_confirmed(request):
            return confirm(self, request, queryset, DROP, rows=self.waiting(queryset), form=DropForm())
        purge = DropForm(request.POST).data.get("purge") == "on"
        steps: list[QueueDropped] = []

        def act(queue: Queue) -> str:
            step = queue_drop(queue=queue.name, purge=purge, limit=PURGE_BATCH_MESSAGES, using=queryset.db)
            steps.append(step)
            text = _("%(messages)d messages purged, %(channels)d channels released, %(schedules)d schedules deleted.")
            return text % {"messages": step.messages, "channels": step.channels, "schedules": step.schedules}

        for queue in list(queryset):
            for _batch in range(MOST_PURGE_BATCHES):
                if not self.apply(request, [queue], act, using=queryset.db) or steps[-1].done:
                    break
            else:
                self.message_user(request, _("%s is not dropped yet: drop it again.") % queue, messages.WARNING)
        done = sum(step.done for step in steps)
        self.show_count(request, ngettext("%d queue is dropped.", "%d queues are dropped.", done), done)
        return None

    def waiting(self, queryset: QuerySet[Queue]) -> list[tuple[str, str]]:
        live = Message.objects.using(queryset.db).exclude(status=Message.Status.LEASED)
        counts = {
            queue.name: live.filter(channel__queue=queue.name)[: COUNTED + 1].count() for queue in queryset[:SHOWN_ROWS]
        }
        return [
            (name, _("%s wait") % (f"{count:,}" if count <= COUNTED else f"{COUNTED:,}+"))
            for name, count in counts.items()
        ]
