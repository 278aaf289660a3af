"""Workers, as they last described themselves."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import DurationField, ExpressionWrapper, F, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import ReadOnlyAdmin
from django_pgqueue.conf import settings
from django_pgqueue.models import Worker
from django_pgqueue.models.expressions import ClockTimestamp


class AliveFilter(admin.SimpleListFilter):
    title = _("alive")
    parameter_name = "alive"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [("yes", _("alive")), ("no", _("silent"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "yes":
                return queryset.filter(silent_for__lte=settings.LEASE)
            case "no":
                return queryset.filter(silent_for__gt=settings.LEASE)
        return queryset


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """A worker that was silent for longer than LEASE has lost its messages: they are delivered to others."""

    list_display = [
        "name_shown",
        "alive",
        "hostname",
        "pid",
        "queues_shown",
        "concurrency",
        "version",
        "started_at",
        "heartbeat",
    ]
    list_filter = [AliveFilter]
    search_fields = ["name"]
    sortable_by = ["name_shown", "started_at"]
    fields = [
        "name",
        "alive",
        "hostname",
        "pid",
        "queues_shown",
        "concurrency",
        "version",
        "started_at",
        "heartbeat_at",
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        # By the clock that wrote heartbeat_at: this host's may be wrong.
        age = ExpressionWrapper(ClockTimestamp() - F("heartbeat_at"), output_field=DurationField())
        return super().get_queryset(request).annotate(silent_for=age)

    @admin.display(description=_("name"), ordering="name")
    def name_shown(self, worker: Worker) -> str:
        return rendering.name(worker.name)

    @admin.display(description=_("alive"), boolean=True)
    def alive(self, worker: Worker) -> bool:
        return worker.silent_for <= settings.LEASE

    @admin.display(description=_("queues"))
    def queues_shown(self, worker: Worker) -> str:
        queues = worker.queues if isinstance(worker.queues, list) else [worker.queues]
        return ", ".join(str(queue) for queue in queues)

    @admin.display(description=_("last heartbeat"))
    def heartbeat(self, worker: Worker) -> str:
        return _("%s ago") % rendering.duration(worker.silent_for)
