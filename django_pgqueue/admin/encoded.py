"""Show content that a codec has encoded: decoded to users with the permission, and as a word to all others."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _

from django_pgqueue import codecs
from django_pgqueue.admin import rendering
from django_pgqueue.lifecycle.sealing import open_row, place_of_row

PERMISSION = "pgqueue.view_decrypted_payload"


def prepare(request: HttpRequest, item: Any) -> Any:
    """Return the row with what this user may see: its loaded columns are decoded if the user has the permission."""
    item.is_decoded = request.user.has_perm(PERMISSION)
    if item.is_decoded:
        with suppress(*codecs.FAILURES):
            open_row(item, item._state.db)
    return item


def opened(item: Any, value: Any) -> Any:
    """Return the value decoded if the user may see it. Raises what a codec raises."""
    if codecs.is_sealed(value) and getattr(item, "is_decoded", False):
        return codecs.opened(value, place_of_row(item, item._state.db))
    return value


def value_html(item: Any, value: Any) -> str:
    """Return a JSON value as HTML."""
    try:
        value = opened(item, value)
    except codecs.FAILURES as error:
        return format_html('<p class="help">{}</p>', _("encrypted: %s") % error)
    if codecs.is_sealed(value):
        return format_html('<p class="help">{}</p>', _("encrypted by %s") % value[codecs.MARK])
    return rendering.pretty_json(value)


def value_html_or_none(item: Any, value: Any) -> str | None:
    """Return what value_html() returns, or None for a value that is NULL."""
    return None if value is None else value_html(item, value)
