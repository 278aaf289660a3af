"""Add the context of the setting ENQUEUE_CONTEXT to the headers of new messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.utils.module_loading import import_string

from django_pgqueue.conf import settings
from django_pgqueue.delivery import NewMessage
from django_pgqueue.exceptions import InvalidMessage


def in_context(messages: list[NewMessage]) -> list[NewMessage]:
    """Return the messages with the context in their headers; a message's own headers win."""
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
    """Return the merged answers of the callables of ENQUEUE_CONTEXT, where later ones win. None if there are none.

    Raises InvalidMessage for an answer that is neither a mapping nor None, and any exception that a callable raises.
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
