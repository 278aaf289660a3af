"""Check the codec of the settings, without a database."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error

from django_pgqueue import codecs


def check_codec(given: dict[str, Any]) -> list[CheckMessage]:
    """Return an error for a codec that cannot be made, and for keys with which FernetCodec cannot work."""
    if given.get("PAYLOAD_CODEC") is None:
        return []
    try:
        codec = codecs.current()
    except Exception as error:  # whatever a module raises when it is imported
        problems = [f"DJANGO_PGQUEUE['PAYLOAD_CODEC'] cannot be made: {type(error).__name__}: {error}"]
    else:
        needed = ("encode", "decode", "name", "version")
        problems = [f"The codec {codec!r} has no {name}" for name in needed if not hasattr(codec, name)]
        if isinstance(codec, codecs.FernetCodec):
            problems += codecs.problems(given.get("PAYLOAD_KEYS"))
    return [
        Error(
            f"{problem}. Enqueue raises, and encoded messages wait or become dead letters.",
            hint="See docs/how-to/encrypt-payloads.md.",
            id="pgqueue.E023",
        )
        for problem in problems
    ]
