"""Show why a message became a dead letter, without loading the traceback."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Left
from django.utils.html import format_html

CLIPPED = 160
"""The most characters of an error's message in a list."""


def with_problem(letters: QuerySet[Any]) -> QuerySet[Any]:
    """Add type and message of the error to each dead letter."""
    words = {
        f"{place}_{key}": Left(KT(f"{column}__{key}"), CLIPPED + 1)
        for place, column in {"given": "details", "last": "errors__-1"}.items()
        for key in ("type", "message")
    }
    found: QuerySet[Any] = letters.annotate(**words)
    return found


def reason_html(letter: Any) -> str:
    """Return the reason of a dead letter as HTML, and below it type and message of its error.

    ``letter``: a row of ``with_problem()``, which has the columns of the error.
    """
    return format_html("{}{}", letter.reason, clipped_error(letter) or "")


def clipped_error(letter: Any) -> str | None:
    """Return type and message of the error as HTML, up to CLIPPED characters; None without an error."""
    given = [letter.given_type, letter.given_message]
    text = ": ".join(word for word in (given if any(given) else [letter.last_type, letter.last_message]) if word)
    if not text:
        return None
    clipped = text if len(text) <= CLIPPED else f"{text[:CLIPPED]}…"
    return format_html('<span class="pgqueue-clip">{}</span>', clipped)
