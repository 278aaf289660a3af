"""Activate the enqueuer's language in the handler: e-mails and documents are written in the language of the request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.utils import translation

from django_pgqueue.delivery import Delivery

KEY = "language"


def capture() -> dict[str, str]:
    """Return the active language for the headers of a message."""
    language = translation.get_language()
    return {KEY: language} if language else {}


@contextmanager
def restore(delivery: Delivery) -> Iterator[None]:
    """Activate the message's language around the handler, or that of its channel.

    A language that the project does not have changes nothing.
    """
    language = delivery.headers.get(KEY, delivery.channel_context.get(KEY))
    try:
        known = translation.get_supported_language_variant(language) if isinstance(language, str) else None
    except LookupError:
        known = None
    if known is None:
        yield
    else:
        with translation.override(known):
            yield


restore.reads = (KEY,)  # type: ignore[attr-defined]  # mypy knows no attributes of functions
