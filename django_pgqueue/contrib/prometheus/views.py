"""Serve the page that Prometheus scrapes."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from django_pgqueue.conf import settings
from django_pgqueue.contrib.prometheus.families import families
from django_pgqueue.contrib.prometheus.text import CONTENT_TYPE, render

PERMISSION = "pgqueue.view_queue"


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics, for requests with METRICS_TOKEN as a bearer token, and for staff that may view queues; else
    403."""
    if not (shows_token(request) or is_staff(request)):
        return HttpResponse("Forbidden\n", status=403, content_type="text/plain")
    return HttpResponse(render(families()), content_type=CONTENT_TYPE)


def shows_token(request: HttpRequest) -> bool:
    """Return whether the request has METRICS_TOKEN as its bearer token. Without the setting, no request has it."""
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    wanted = settings.METRICS_TOKEN
    return bool(wanted) and kind.lower() == "bearer" and constant_time_compare(given.strip(), wanted)


def is_staff(request: HttpRequest) -> bool:
    """Return whether an active staff user with the permission PERMISSION makes the request."""
    user = getattr(request, "user", None)
    return user is not None and user.is_active and user.is_staff and user.has_perm(PERMISSION)
