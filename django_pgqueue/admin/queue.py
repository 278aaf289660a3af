"""Queues: pause, resume, and whether they tell events."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering
from django_pgqueue.admin.filters import QUEUES
from django_pgqueue.admin.pausable import PausableAdmin
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.lifecycle.queue_pause import queue_pause
from django_pgqueue.lifecycle.queue_resume import queue_resume
from django_pgqueue.models import Queue
from django_pgqueue.sql.call import call

MOST = 1_000


@admin.register(Queue)
class QueueAdmin(PausableAdmin):
    list_display = ["name_shown", "state", "events"]
    search_fields = ["name"]
    sortable_by = ["name_shown"]
    fields = ["name", "events", "paused_at", "paused_until", "pause_reason"]
    readonly_fields = ["name", "paused_at", "paused_until", "pause_reason"]
    actions = ["pause", "resume"]
    pause_consequence = _(
        "Nothing more of these queues is delivered to any worker until you resume them. Enqueue goes on."
    )

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

    @admin.display(description=_("name"), ordering="name")
    def name_shown(self, queue: Queue) -> str:
        return rendering.name(queue.name)

    @admin.display(description=_("state"))
    def state(self, queue: Queue) -> str:
        if queue.paused_at:
            return rendering.paused(queue.pause_reason, queue.paused_until)
        return rendering.badge(_("open"), "good")

    def pause_one(self, item: Queue, reason: str, *, until: datetime | None, using: str) -> None:
        queue_pause(item.name, reason=reason, until=until, using=using)

    def resume_one(self, item: Queue, *, using: str) -> None:
        queue_resume(item.name, using=using)
