"""Middleware: nothing inline, nothing from elsewhere; nothing known from the test before."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest, HttpResponse

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def strict(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    def answer(request: HttpRequest) -> HttpResponse:
        start = time.perf_counter()
        response = get_response(request)
        response["Content-Security-Policy"] = POLICY
        response["Server-Timing"] = f"total;dur={1000 * (time.perf_counter() - start):.1f}"
        return response

    return answer


def forgetful(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """The server outlives the tests, each of which leaves content types with other ids behind."""

    def answer(request: HttpRequest) -> HttpResponse:
        ContentType.objects.clear_cache()
        return get_response(request)

    return answer
