"""Render values as HTML. Content of messages is foreign text: always pass it through format_html."""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model
from django.db.models.functions import Length, Substr
from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join, strip_tags
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_pgqueue import codecs

TEXT_CHARACTERS = 100_000
PREVIEW_BYTES = 512
FIRST, LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
"""The bounds of the times that every time zone can show, as of models.fields.Moment."""
PRINTABLE = set(string.printable) - set("\x0b\x0c")


def pre(text: str) -> str:
    """Return preformatted text; the end of a very long one is left out, with a note that says so."""
    if len(text) <= TEXT_CHARACTERS:
        return format_html('<pre class="pgqueue-text">{}</pre>', text)
    left_out = _("… the rest of %(length)s characters is left out.") % {"length": f"{len(text):,}"}
    return format_html('<pre class="pgqueue-text">{}</pre><p class="help">{}</p>', text[:TEXT_CHARACTERS], left_out)


def pretty_json(value: Any) -> str:
    """Return a value as indented JSON in a <pre>."""
    return pre(json.dumps(value, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder))


def body_preview(item: Model) -> str | None:
    """Return the size of the body and its first bytes, as text if they are text. The rest is not loaded."""
    rows = type(item)._base_manager.using(item._state.db).filter(pk=item.pk)
    size, start = rows.values_list(Length("body"), Substr("body", 1, PREVIEW_BYTES)).get()
    if size is None:
        return None
    if codecs.is_sealed_body(bytes(start)):
        return format_html('<p class="help">{}</p>', _("encrypted"))
    exact = ngettext("%d byte", "%d bytes", size) % size
    return format_html(
        "{}{}",
        format_html("<p>{}</p>", exact if size < 1024 else f"{filesizeformat(size)} ({exact})"),
        pre(readable(bytes(start)) + (" …" if size > PREVIEW_BYTES else "")),
    )


def readable(data: bytes) -> str:
    """Return UTF-8 text without a character that is cut off at the end; anything else as a hex dump."""
    for cut in range(4):
        try:
            text = data[: len(data) - cut].decode()
        except UnicodeDecodeError:
            continue
        if all(character in PRINTABLE or character.isprintable() for character in text):
            return text
        break
    return "\n".join(hex_line(data, offset) for offset in range(0, len(data), 16))


def hex_line(data: bytes, offset: int) -> str:
    """Return a line of a hex dump: the offset, 16 bytes, and their printable ASCII."""
    part = data[offset : offset + 16]
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
    return f"{offset:08x}  {part.hex(' '):47}  {text}"


def error_html(error: Mapping[str, Any]) -> str:
    """Return an exception, given as ``{"type", "message", "traceback"}``."""
    line = ": ".join(str(error[key]) for key in ("type", "message") if error.get(key))
    traceback = error.get("traceback")
    return format_html(
        "{}{}",
        format_html('<p class="pgqueue-problem">{}</p>', line) if line else "",
        format_html("<details><summary>{}</summary>{}</details>", _("Traceback"), pre(str(traceback)))
        if traceback
        else "",
    )


def details(value: Any) -> str | None:
    """Return the details of a dead letter; an exception is shown as one."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not {"type", "message"} & set(value):
        return pretty_json(value)
    rest = {key: item for key, item in value.items() if key not in ("type", "message", "traceback")}
    return format_html("{}{}", error_html(value), pretty_json(rest) if rest else "")


def parsed(text: Any) -> datetime | None:
    """Return the time that a JSON value holds, within the bounds that every time zone can show; or None."""
    try:
        found = parse_datetime(str(text))
    except ValueError:
        return None
    return None if found is None or timezone.is_naive(found) else min(max(found, FIRST), LAST)


def moment_text(text: Any) -> str:
    """Return the time that a JSON value holds, or else the value unchanged."""
    found = parsed(text)
    return str(text) if found is None else at(found)


def at(found: datetime) -> str:
    """Return a time in the reader's time zone, to the second."""
    return date_format(timezone.localtime(found), "j M Y, H:i:s")


def short(found: datetime) -> str:
    """Return a time for a list: of today without the date, of this year without the year; the title has the whole."""
    local, today = timezone.localtime(found), timezone.localdate()
    form = "H:i:s" if local.date() == today else "j M, H:i" if local.year == today.year else "j M Y"
    return format_html('<span class="pgqueue-time" title="{}">{}</span>', at(found), date_format(local, form))


def moment(found: datetime) -> str:
    """Return a time as at() does, and how far it is from now."""
    apart = timezone.now() - found
    text = _("%s ago") if apart >= timedelta(0) else _("in %s")
    return format_html('{} <span class="quiet">{}</span>', at(found), text % duration(abs(apart)))


def duration(value: timedelta) -> str:
    """Return a duration in its two largest units, with spaces that do not break: 3 d 4 h, 2 min 5 s, 250 ms."""
    seconds = value.total_seconds()
    if abs(seconds) < 10:
        return f"{seconds:.3g}\N{NO-BREAK SPACE}s" if abs(seconds) >= 1 else f"{seconds * 1000:.3g}\N{NO-BREAK SPACE}ms"
    parts: list[str] = []
    left = round(abs(seconds))
    for size, unit in [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")]:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count}\N{NO-BREAK SPACE}{unit}" if count else "")
    return ("-" if seconds < 0 else "") + "\N{NO-BREAK SPACE}".join(part for part in parts[:2] if part)


def seconds_text(value: float | None) -> str | None:
    """Return seconds as duration() shows them, or None for None."""
    return None if value is None else duration(timedelta(seconds=value))


def number(value: object) -> str:
    """Return an integer with separators, or another value as it is, in the digits of a table."""
    return format_html('<span class="pgqueue-number">{}</span>', f"{value:,}" if isinstance(value, int) else value)


def name(text: object) -> str:
    """Return a name as HTML whose line may break anywhere: it may be long and without spaces."""
    return format_html('<span class="pgqueue-name">{}</span>', text)


def line(*parts: object) -> str:
    """Return texts in one line of a list, which cuts what is too long; the title has the whole."""
    whole = " ".join(unescape(strip_tags(part)) if isinstance(part, SafeString) else str(part) for part in parts)
    inside = format_html_join(" ", "<span>{}</span>", ((part,) for part in parts))
    return format_html('<span class="pgqueue-line" title="{}">{}</span>', whole, inside)


def table(heads: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """Return a small table for the page of one object."""
    return format_html(
        '<table class="pgqueue-table"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>',
        format_html_join("", '<th scope="col">{}</th>', ((head,) for head in heads)),
        format_html_join(
            "", "<tr>{}</tr>", ((format_html_join("", "<td>{}</td>", ((cell,) for cell in row)),) for row in rows)
        ),
    )


def badge(text: object, kind: str) -> str:
    """Return a coloured label. ``kind``: good, busy, late or bad."""
    return format_html('<span class="pgqueue-badge pgqueue-{}">{}</span>', kind, text)


def pause_badge(reason: str, until: datetime | None = None) -> str:
    """Return the label of a pause, with its reason."""
    clipped = reason if len(reason) <= 80 else f"{reason[:80]}…"
    text = _("paused until %s") % at(until) if until else _("paused")
    return format_html('{} <span class="quiet">{}</span>', badge(text, "late"), clipped)
