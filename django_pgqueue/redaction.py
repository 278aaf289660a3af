"""Remove secrets from texts, because errors are kept for weeks and read by many. Unknown secrets are not found."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from django.conf import global_settings
from django.conf import settings as django_settings
from django.core.signals import setting_changed

HIDDEN = "********"
SHORTEST_SECRET_CHARACTERS = 5
# A secret of this length or more is hidden inside of longer words, too.
UNMISTAKABLE_CHARACTERS = 12
DEEPEST_LEVELS = 6
# Django's own settings that hold secrets. Its other settings with such names hold names of classes and cookies.
DJANGO_SECRETS = {"SECRET_KEY", "SECRET_KEY_FALLBACKS", "EMAIL_HOST_PASSWORD"}

SECRET_NAME = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret|token(?!s|iz)|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|credential|signature|session_?id|csrf)[\w-]{0,64}"
)
SECRET_VARIABLE = re.compile(SECRET_NAME, re.IGNORECASE)
NO_SECRETS = {"PWD", "OLDPWD"}  # of a shell: they are in the path of each file
URL_PASSWORD = re.compile(r"(?<=://)([^\s:/@'\"]{0,256}:)((?!\d+/)[^\s'\"]{1,1024}|[^\s/'\"]{1,1024})@")
VALUE = r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"|['\"]?(?!(?:None|null|True|False)\b)[^\s'\"&]+"

# Each hides its group "secret". Repetitions are bounded, so that a text of any length takes linear time.
PATTERNS = [
    re.compile(r"(?P<secret>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}-----|\Z))", re.DOTALL),
    # Rows and parameters, as errors of PostgreSQL show them.
    re.compile(r"Failing row contains (?P<secret>.*?)(?=\n[A-Z]+:|\n\n|\Z)", re.DOTALL),
    re.compile(r"\$\d+ = (?P<secret>'(?:[^']|'')*+')"),
    re.compile(r"COPY \S{1,200}, line \d+(?:, column \S{1,200})?: (?P<secret>\".*\")"),
    re.compile(rf"Key \([^()\n]{{0,200}}?{SECRET_NAME}[^()\n]{{0,200}}\)=(?P<secret>\(.*?\))(?= |$)", re.I | re.M),
    # Headers of HTTP.
    re.compile(
        r"\b(?:authorization|cookie)['\"]?\s{0,4}[:=]\s{0,4}(?:b(?=['\"]))?(?P<secret>'[^'\n]*+'|\"[^\"\n]*+\"|[^\s'\"][^\r\n'\"]*)",
        re.IGNORECASE,
    ),
    re.compile(r"\b(?:bearer|basic)\s{1,4}(?P<secret>[\w.~+/=-]{8,})", re.IGNORECASE),
    # password=…, "api_key": "…", --token …
    re.compile(
        rf"{SECRET_NAME}['\"]?\]?\s{{0,4}}(?:=>|[:=])\s{{0,4}}(?:b(?=['\"]))?(?P<secret>{VALUE})", re.IGNORECASE
    ),
    re.compile(rf"(?<!\S)--[\w-]{{0,64}}?{SECRET_NAME}\s{{1,4}}(?P<secret>{VALUE})", re.IGNORECASE),
    # Secrets with a known form: JSON web tokens, keys of AWS, GitHub, Slack, Stripe.
    re.compile(
        r"\b(?P<secret>eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*|A(?:KIA|SIA)[0-9A-Z]{16}|gh[pousr]_\w{20,}"
        r"|github_pat_\w{20,}|xox[abeprs]-[\w-]{10,}|[rs]k_(?:live|test)_\w{10,})"
    ),
    re.compile(r"https?://(?P<secret>[^\s:/@'\"]{1,1024})(?=@)", re.IGNORECASE),
]


def redact(text: str) -> str:
    """Return the text with its secrets hidden: known values, passwords in URLs, ``password=…``, tokens, rows in
    errors."""
    text = URL_PASSWORD.sub(rf"\g<1>{HIDDEN}@", text)
    known = known_secrets()
    if known is not None:
        text = known.sub(HIDDEN, text)
    for pattern in PATTERNS:
        text = pattern.sub(hide, text)
    return text


def hide(match: re.Match[str]) -> str:
    """Return the match with its group "secret" hidden."""
    start, end = (place - match.start() for place in match.span("secret"))
    return match[0][:start] + HIDDEN + match[0][end:]


@cache
def known_secrets() -> re.Pattern[str] | None:
    """Return a pattern of the secret values in settings, environment variables and database passwords; None without
    any."""
    words: set[str] = set()
    for secret in {*secrets_of_settings(), *secrets_of_environment()}:
        if len(secret) >= SHORTEST_SECRET_CHARACTERS and not is_plain(secret):
            words |= {secret, repr(secret)[1:-1], quote(secret, safe=""), quote_plus(secret)}
    if not words:
        return None
    # The longest first: a secret may begin like another one.
    return re.compile("|".join(bounded(word) for word in sorted(words, key=lambda word: (-len(word), word))))


def forget_secrets(**kwargs: object) -> None:
    """Drop the cached pattern, because a setting has changed."""
    known_secrets.cache_clear()


setting_changed.connect(forget_secrets)


def bounded(word: str) -> str:
    """Return a pattern for the word; a short word is found only as a whole word."""
    return re.escape(word) if len(word) >= UNMISTAKABLE_CHARACTERS else rf"(?<!\w){re.escape(word)}(?!\w)"


def is_plain(text: str) -> bool:
    """Return whether a text is the path of a file that exists, or a dotted name whose first part is a loaded module.

    AUTH_BACKEND = "shop.auth.Backend" and KEY_FOLDER = "/srv/shop" have names that sound secret, and appear in
    tracebacks.
    """
    if text.startswith("/") and os.path.exists(text):
        return True
    parts = text.split(".")
    return len(parts) > 1 and all(map(str.isidentifier, parts)) and parts[0] in sys.modules


def secrets_of_settings() -> Iterator[str]:
    """Yield the secrets in Django's settings."""
    from django.views.debug import get_default_exception_reporter_filter

    hidden = getattr(get_default_exception_reporter_filter(), "hidden_settings", SECRET_VARIABLE)
    # Read the wrapped object: the settings themselves would warn of each deprecated one that is read here.
    names = [name for name in dir(django_settings) if name.isupper()]
    values = django_settings._wrapped  # type: ignore[misc]  # Django has no other way to them
    for name in names:
        value = getattr(values, name)
        if name == "DATABASES":
            yield from secrets_in(value, SECRET_VARIABLE)
        elif not hasattr(global_settings, name):
            yield from secrets_in({name: value}, hidden)
        elif name in DJANGO_SECRETS:
            yield from texts_in(value)
        else:
            yield from secrets_in(value, SECRET_VARIABLE)


def secrets_of_environment() -> Iterator[str]:
    """Yield the secrets in environment variables."""
    found = {name: value for name, value in os.environ.copy().items() if name not in NO_SECRETS}
    yield from secrets_in(found, SECRET_VARIABLE)


def secrets_in(value: Any, names: re.Pattern[str], depth: int = DEEPEST_LEVELS) -> Iterator[str]:
    """Yield the texts under secret names, and the passwords of URLs, in nested dicts and lists."""
    if isinstance(value, str):
        for match in URL_PASSWORD.finditer(value):
            yield match[2]
            yield unquote(match[2])
    elif isinstance(value, dict) and depth:
        for key, inner in value.items():
            if isinstance(key, str) and names.search(key):
                yield from texts_in(inner, depth - 1)
            else:
                yield from secrets_in(inner, names, depth - 1)
    elif isinstance(value, list | tuple | set) and depth:
        for inner in value:
            yield from secrets_in(inner, names, depth - 1)


def texts_in(value: Any, depth: int = DEEPEST_LEVELS) -> Iterator[str]:
    """Yield all texts among the values of nested dicts, lists, tuples and sets; bytes are decoded, keys left out.

    ``depth``: how many levels of nesting are read; texts below are left out.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "backslashreplace")
    elif isinstance(value, dict | list | tuple | set) and depth:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts_in(inner, depth - 1)


# Line breaks, control characters of terminals, and characters that change the direction of text.
UNPRINTABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return the text in one line: names and errors come from outside, and must not look like a separate log line."""
    return UNPRINTABLE.sub(lambda match: repr(match[0])[1:-1], text)


def indented(text: str) -> str:
    """Return a traceback with each line indented, so that no line looks like the beginning of a record."""
    return "\n".join(f"  {printable(line)}" for line in text.split("\n"))


class RedactingFilter(logging.Filter):
    """Hide secrets in the message and the traceback of a log record, and make the message one line, before it is
    formatted."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record in place. Returns True: no record is dropped."""
        if record.exc_info and not record.exc_text:
            # Formatters take this text, and do not make one of their own.
            record.exc_text = indented(redact(logging.Formatter().formatException(record.exc_info)))
        text = record.getMessage()
        cleaned = printable(redact(text))
        if cleaned != text:
            record.msg, record.args = cleaned, ()
        return True
