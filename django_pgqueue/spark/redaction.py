"""Remove the password of the source, and the keys of an object store, from texts.

`django_pgqueue.redaction` does more, and needs Django.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "********"
# A secret of at least this length is also removed inside a longer word.
UNMISTAKABLE_CHARACTERS = 8
VARIABLES = ("PGPASSWORD", "PGQUEUE_SOURCE", "DATABASE_URL")
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")

URL_PASSWORD = re.compile(r"(://[^\s:/@'\"]{0,256}:)([^\s/'\"]{1,1024})@")
KEYWORD = re.compile(r"(\bpassword\s{0,4}=\s{0,4})('(?:[^'\\]|\\.)*+'|[^\s'\"&]+)", re.IGNORECASE)


def redact_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without passwords in URLs, ``password=…`` and these secrets."""
    text = URL_PASSWORD.sub(rf"\g<1>{HIDDEN}@", text)
    text = KEYWORD.sub(rf"\g<1>{HIDDEN}", text)
    for secret in sorted(secrets, key=len, reverse=True):
        word = re.escape(secret)
        text = re.sub(word if len(secret) >= UNMISTAKABLE_CHARACTERS else rf"(?<!\w){word}(?!\w)", HIDDEN, text)
    return text


def secrets_of(*texts: str) -> set[str]:
    """Return the passwords in these texts, and those and the keys in the environment, in all spellings."""
    found = {value for name in ("PGPASSWORD", *KEYS) if (value := os.environ.get(name))}
    for text in (*texts, *(os.environ.get(name, "") for name in VARIABLES[1:])):
        found.update(_passwords(text))
    return found | {spelling(secret) for secret in found for spelling in (quote, quote_plus, _quoted)}


def _passwords(text: str) -> Iterator[str]:
    for match in URL_PASSWORD.finditer(text):
        yield match[2]
        yield unquote(match[2])
    for match in KEYWORD.finditer(text):
        word = match[2]
        yield re.sub(r"\\(.)", r"\1", word[1:-1]) if word.startswith("'") else word
        yield unquote(word)


def _quoted(secret: str) -> str:
    return secret.replace("\\", "\\\\").replace("'", "\\'")
