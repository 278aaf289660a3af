"""Convert between Python and jsonb columns. Values that PostgreSQL cannot store are refused before anything is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, time
from enum import Enum
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Model

from django_pgqueue.conf import settings
from django_pgqueue.exceptions import InvalidMessage

NUL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
SURROGATE_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\ud[89a-f]")


class Encoder(DjangoJSONEncoder):
    """Encode dataclasses as objects, enums as their values, times with their microseconds, and everything else as
    Django does: typed payloads need it."""

    def default(self, value: Any) -> Any:
        """Return the value as one that JSON has. Raises TypeError for other types."""
        if is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        if isinstance(value, Enum):
            return value.value
        text = super().default(value)
        if isinstance(value, datetime | time) and value.microsecond % 1000:
            # Django cuts them off after the milliseconds.
            return value.isoformat().removesuffix("+00:00") + "Z" * text.endswith("Z")
        return text


class RowEncoder(Encoder):
    """Encode instances of models as references, for handlers that take rows: the worker fetches them again."""

    def default(self, value: Any) -> Any:
        """Return the value as one that JSON has. Raises ValueError for a row that is not saved."""
        if not isinstance(value, Model):
            return super().default(value)
        if value._state.adding or value.pk is None:
            raise ValueError(f"this {value._meta.label} is not saved, so no worker could fetch it: save it first")
        return {"model": value._meta.label_lower, "pk": value.pk, "using": value._state.db}


ENCODER = Encoder(allow_nan=False)
ROW_ENCODER = RowEncoder(allow_nan=False)
# Stands between the values of a list that is encoded; its JSON contains an escape, which most values do not have.
MARK = "\x1f"
MARK_BETWEEN = f", {ENCODER.encode(MARK)}, "


def to_json(value: Any, what: str, most: int | None = None, *, rows: bool = False) -> str | None:
    """Return JSON text that PostgreSQL takes; None stays None.

    ``what``: the name of the value in errors. ``most``: the setting MAX_PAYLOAD, if it is read already. ``rows``:
    instances of models become references. Raises InvalidMessage for a value that is not JSON, for NaN and infinities,
    for \\u0000 and half surrogate pairs, which jsonb cannot hold, and for more than MAX_PAYLOAD bytes.
    """
    if value is None:
        return None
    encoder = ROW_ENCODER if rows else ENCODER
    try:
        text = encoder.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        at = "" if isinstance(error, RecursionError) else misfit(value, encoder)
        raise InvalidMessage(
            f"something in the {what} is not JSON{at and f', at {at}'}: {error}",
            hint="Pass dicts, lists, strings, numbers, dates; of a row its primary key.",
        ) from error
    limit_size(len(text), what, most)
    if "\\u" not in text:
        return text
    if NUL_ESCAPE.search(text):
        raise InvalidMessage(
            f"the {what} contains the character \\u0000, which PostgreSQL cannot store",
            hint="Remove it, or send raw bytes as body.",
        )
    if SURROGATE_ESCAPE.search(text):
        try:
            json.dumps(value, cls=type(encoder), ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InvalidMessage(
                f"the {what} contains half a surrogate pair: it is not text", hint="Send it as body."
            ) from error
    return text


def misfit(value: Any, encoder: Encoder, outer: tuple[int, ...] = ()) -> str:
    """Return the way to the first part of ``value`` that is not JSON, as ``.lines[0].price``; empty: the whole.

    ``outer``: the ids of the values that contain this one. A value that contains itself is a misfit.
    """
    if id(value) in outer:
        return ""
    outer += (id(value),)
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    if isinstance(value, dict):
        parts = [(f".{key}", part) for key, part in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"[{place}]", part) for place, part in enumerate(value)]
    else:
        return ""
    for step, part in parts:
        try:
            encoder.encode(part)
        except (TypeError, ValueError):
            return step + misfit(part, encoder, outer)
    return ""


def to_json_texts(values: Sequence[Any], what: str, most: int) -> list[str | None]:
    """Return the JSON texts of values, each as :func:`to_json` returns it, for half of the time.

    One list is encoded, with a mark between the values. Where a value may be refused, or has a character that JSON
    escapes as the mark is, each value is encoded by itself. The parameters and exceptions are those of ``to_json``.
    """
    marked = [MARK] * (2 * len(values) - 1)
    marked[::2] = values
    try:
        text = ENCODER.encode(marked)
    except (TypeError, ValueError, RecursionError):
        text = ""
    if not text or len(text) > most or text.count("\\u") >= len(values):
        return [to_json(value, what, most) for value in values]
    texts: list[str | None] = list(text[1:-1].split(MARK_BETWEEN))
    return texts if None not in values else [None if v is None else t for v, t in zip(values, texts, strict=True)]


def limit_size(size: int, what: str, most: int | None = None) -> None:
    """Raise InvalidMessage if ``size``, in bytes, is more than MAX_PAYLOAD.

    ``what``: the value's name in errors. ``most``: the setting MAX_PAYLOAD, if it is read already.
    """
    most = settings.MAX_PAYLOAD if most is None else most
    if size > most:
        raise InvalidMessage(
            f"the {what} takes {size:,} bytes, more than the setting MAX_PAYLOAD allows ({most:,})",
            hint="Store it elsewhere and send its address or id.",
        )


DECODER = json.JSONDecoder()


def from_json(text: str | None) -> Any:
    """Return the value of JSON text as PostgreSQL writes it, without spaces around it; None stays None."""
    return None if text is None else DECODER.raw_decode(text)[0]
