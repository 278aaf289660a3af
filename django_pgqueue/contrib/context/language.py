"""The language of the enqueuer in the handler: e-mails and documents come in the language of the request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.utils import translation

from django_pgqueue.delivery import Delivery

KEY = "language"


def capture() -> dict[str, str]:
    language = translation.get_language()
    return {KEY: language} if language else {}


@contextmanager
def restore(delivery: Delivery) -> Iterator[None]:
    """A language that the project does not have (any more) changes nothing, as in a request."""
    language = delivery.context.get(KEY)
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
