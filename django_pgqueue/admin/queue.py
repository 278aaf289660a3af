"""Queues: pause, resume, and whether they tell events."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import BaseAdmin
from django_pgqueue.admin.confirmation import ReasonForm, confirm, is_confirmed
from django_pgqueue.admin.filters import QUEUES
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.queue_pause import queue_pause
from django_pgqueue.lifecycle.queue_resume import queue_resume
from django_pgqueue.models import Queue
from django_pgqueue.sql.call import call

MOST = 1_000


@admin.register(Queue)
class QueueAdmin(BaseAdmin):
    list_display = ["name_shown", "state", "events"]
    search_fields = ["name"]
    sortable_by = ["name_shown"]
    fields = ["name", "events", "paused_at", "pause_reason"]
    readonly_fields = ["name", "paused_at", "pause_reason"]
    actions = ["pause", "resume"]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        self.add_missing()
        return super().changelist_view(request, extra_context)

    def add_missing(self) -> None:
        """A row for each queue that has channels: until one is paused or tells events, only this page needs it."""
        queues = Queue.objects.using(alias(None))
        known = set(queues.values_list("name", flat=True))
        found = [name for (name,) in call(alias(None), QUEUES, (MOST,))]
        queues.bulk_create([Queue(name=name) for name in found if name not in known], ignore_conflicts=True)

    def save_model(self, request: HttpRequest, obj: Queue, form: forms.ModelForm, change: bool) -> None:
        # Only what was edited: somebody may have paused the queue since the form was opened.
        obj.save(using=alias(None), update_fields=form.changed_data)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: a queue is there when it has a channel."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Queue | None = None) -> bool:
        return False

    def has_pause_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("pgqueue.pause_queue")

    @admin.display(description=_("name"), ordering="name")
    def name_shown(self, queue: Queue) -> str:
        return rendering.name(queue.name)

    @admin.display(description=_("state"))
    def state(self, queue: Queue) -> str:
        if queue.paused_at:
            return rendering.paused(queue.pause_reason)
        return rendering.badge(_("open"), "good")

    @admin.action(description=_("Pause selected queues"), permissions=["pause"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Queue]) -> HttpResponse | None:
        form = ReasonForm(request.POST if is_confirmed(request) else None)
        if not form.is_valid():
            return confirm(
                self,
                request,
                queryset,
                action="pause",
                title=_("Pause queues"),
                consequence=_(
                    "Nothing more of these queues is delivered to any worker until you resume them. Enqueue goes on."
                ),
                button=_("Pause"),
                form=form,
            )
        reason = form.cleaned_data["reason"]

        def act(queue: Queue) -> str:
            queue_pause(queue.name, reason=reason, using=queryset.db)
            return _("Paused: %s") % reason

        done = self.apply(request, queryset, act, using=queryset.db)
        self.tell(request, ngettext("%d queue is paused.", "%d queues are paused.", len(done)), len(done))
        return None

    @admin.action(description=_("Resume selected queues"), permissions=["pause"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Queue]) -> None:
        def act(queue: Queue) -> str:
            queue_resume(queue.name, using=queryset.db)
            return _("Resumed.")

        done = self.apply(request, queryset.exclude(paused_at=None), act, using=queryset.db)
        self.tell(request, ngettext("%d queue is resumed.", "%d queues are resumed.", len(done)), len(done))
