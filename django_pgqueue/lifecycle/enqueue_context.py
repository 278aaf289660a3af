"""What enqueue adds to the headers of each message: the setting ENQUEUE_CONTEXT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.utils.module_loading import import_string

from django_pgqueue.conf import settings
from django_pgqueue.delivery import NewMessage
from django_pgqueue.exceptions import InvalidMessage


def in_context(messages: list[NewMessage]) -> list[NewMessage]:
    """The messages with the context in their headers; their own headers win."""
    context = enqueue_context()
    if not context:
        return messages
    return [
        replace(message, headers={**context, **(message.headers or {})})
        if message.headers is None or isinstance(message.headers, Mapping)
        else message
        for message in messages
    ]


def enqueue_context() -> dict[str, Any] | None:
    """What the callables of ENQUEUE_CONTEXT return, together; later ones win. None if there are none.

    What one of them raises, enqueue raises. Raises InvalidMessage for an answer that is neither a mapping nor None.
    """
    if not settings.ENQUEUE_CONTEXT:
        return None
    context: dict[str, Any] = {}
    for provider in settings.ENQUEUE_CONTEXT:
        found = (import_string(provider) if isinstance(provider, str) else provider)()
        if found is not None and not isinstance(found, Mapping):
            raise InvalidMessage(
                f"{provider} of ENQUEUE_CONTEXT returned {type(found).__name__}", hint="Return a dict, or None."
            )
        context |= found or {}
    return context
