"""Canaries: secrets of all kinds that must not survive, and texts that must."""

from __future__ import annotations

import logging
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import override_settings

import django_pgqueue
from django_pgqueue.redaction import HIDDEN, RedactingFilter, forget_secrets, redact
from django_pgqueue.worker.failure import describe_error
from django_pgqueue.worker.numbers import MESSAGE_CHARACTERS
from tests.support.cases import cases

CANARY = "canary-7f3a"


@cases(
    "text",
    [
        f"could not connect to postgresql://bob:{CANARY}@db:5432/shop",
        f"redis://:{CANARY}@cache/0",
        f"amqp://bob:a/{CANARY}@b@broker//",
        f"cloning https://{CANARY}@github.com/shop",
        f"password={CANARY} host=db",
        f"password = '{CANARY} with blanks'",
        f"{{'user': 'bob', 'password': '{CANARY}'}}",
        f'{{"api_key": "a\\"{CANARY}"}}',
        f"config[client_secret] => {CANARY}",
        f"https://api/pay?access_token={CANARY}&amount=3",
        f"PGPASSWORD={CANARY} pg_dump shop",
        f"mysql --db-password {CANARY} shop",
        f"Driver=ODBC;PWD={CANARY}",
        f"Authorization: Token {CANARY}",
        f"{{'Authorization': b'Basic {CANARY}'}}",
        f"sent Bearer {CANARY}, got 401",
        f"Cookie: theme=dark; sessionid={CANARY}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{CANARY}",
        f"Key (email, reset_token)=(a@b.example, {CANARY}) already exists.",
        f"null value\nDETAIL:  Failing row contains (1, null, a)\n{CANARY}).",
        f"CONTEXT:  unnamed portal with parameters: $1 = 'it''s {CANARY}'",
        f'CONTEXT:  COPY card, line 7, column number: "{CANARY}"',
        f"password='{CANARY} in a text that was cut",
    ],
)
def test_a_secret_that_its_surroundings_give_away_is_hidden(text: str) -> None:
    assert CANARY not in redact(text)
    assert HIDDEN in redact(text)


@cases(
    "token",
    [
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "AKIA" + "IOSFODNN7EXAMPLE",
        "ghp_" + "a1B2" * 9,
        "xoxb-" + "1234567-abcd",
        "sk_live_" + "4eC39HqLyjWD",
    ],
)
def test_a_secret_that_its_looks_give_away_is_hidden(token: str) -> None:
    assert redact(f"refused: {token}.") == f"refused: {HIDDEN}."


@cases(
    "text",
    [
        "http://host:8000/users/bob@example.com is not found",
        "max_tokens=4096 is more than the model takes",
        "password=None",
        "the password is too short",
        "duplicate key value\nDETAIL:  Key (email)=(a@b.example) already exists.",
        '  File "/srv/shop/tokens/views.py", line 3, in check_password',
        "expected 3 arguments: a, b and c",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SECRET_KEY", CANARY),
        ("SECRET_KEY_FALLBACKS", [CANARY]),
        pytest.param("EMAIL_HOST_PASSWORD", CANARY, marks=pytest.mark.filterwarnings("ignore:The EMAIL_HOST_PASSWORD")),
        ("MAILERS", {"default": {"BACKEND": "x", "OPTIONS": {"username": "bob", "password": CANARY}}}),
        ("STRIPE_API_KEY", CANARY),
        ("PAYMENTS", {"sandbox": False, "keys": [{"signing_key": CANARY}]}),
        ("BROKER_URL", f"amqp://bob:{CANARY}@broker"),
        ("CACHES", {"default": {"BACKEND": "x", "LOCATION": f"redis://:{CANARY}@cache"}}),
    ],
    ids=lambda value: value if str(value).isidentifier() else "",  # pytest puts ids into the environment
)
def test_the_value_of_a_secret_setting_is_hidden_wherever_it_is(name: str, value: Any) -> None:
    with override_settings(**{name: value}):
        assert redact(f"bob said {CANARY} and left") == f"bob said {HIDDEN} and left"
    assert CANARY in redact(f"bob said {CANARY} and left")


def test_the_password_of_a_database_is_hidden_also_as_part_of_a_url() -> None:
    databases = {"default": {"ENGINE": "django.db.backends.postgresql", "PASSWORD": "p/w?&é", "OPTIONS": {}}}
    with override_settings():
        from django.conf import settings

        settings.DATABASES = databases
        forget_secrets()
        assert redact("sent p%2Fw%3F%26%C3%A9 and p/w?&é.") == f"sent {HIDDEN} and {HIDDEN}."
    forget_secrets()


def test_secrets_of_the_environment_are_hidden_but_not_its_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("PWD", "/srv/shop")
    monkeypatch.setenv("SECRET_FOLDER", sys.prefix)
    forget_secrets()
    assert (
        redact(f"{CANARY} in /srv/shop/views.py and {sys.prefix}") == f"{HIDDEN} in /srv/shop/views.py and {sys.prefix}"
    )
    monkeypatch.undo()
    forget_secrets()


@override_settings(SHOP_PASSWORD="admin", AUTH_BACKEND="django.contrib.auth.backends.ModelBackend")
def test_a_short_secret_is_hidden_as_a_word_only_and_names_of_classes_are_none() -> None:
    text = "django.contrib.auth.backends.ModelBackend: administration by admin"
    assert redact(text) == f"django.contrib.auth.backends.ModelBackend: administration by {HIDDEN}"


@cases(
    "part",
    ["token", "://a:", "https://", "Key (", "password '", "password='", "'", "-", "Failing row contains (", "bearer ",
     "cookie:'", "$1 = '", 'COPY a, line 1: "', "-----BEGIN PRIVATE KEY-----", "--a", "eyJ", "password=\\"],
)  # fmt: skip
def test_no_text_takes_long(part: str) -> None:
    started = time.process_time()
    redact(part * (100_000 // len(part)))
    # Quadratic patterns take minutes.
    assert time.process_time() - started < 20


def failure(error: BaseException) -> str:
    try:
        raise error
    except BaseException as caught:
        return repr(describe_error(caught))


class TestFailures:
    def test_notes_causes_and_groups_are_kept_and_redacted(self) -> None:
        cause = ValueError(f"cause: password={CANARY}")
        cause.add_note(f"note: token={CANARY}")
        error = RuntimeError(f"outer: Bearer {CANARY}")
        error.__cause__ = cause
        inner = KeyError(f"inner: secret={CANARY}")
        inner.add_note("of the inner one")
        group = ExceptionGroup("several", [inner])
        group.__context__ = error
        text = failure(group)
        assert CANARY not in text
        for part in ("cause: ", "note: ", "outer: ", "several", "inner: ", "of the inner one"):
            assert part in text

    def test_a_secret_where_the_text_is_cut_is_not_left_in_halves(self) -> None:
        half = MESSAGE_CHARACTERS // 2
        for shift in range(12):
            text = describe_error(ValueError("x" * 5000 + f" password={CANARY} yy" + "y" * (half - shift)))["message"]
            assert "a y" not in text
            text = describe_error(ValueError("x" * (half - shift) + f" password={CANARY} " + "y" * 5000))["message"]
            assert "canary" not in text

    def test_the_row_in_a_database_error_is_hidden_in_any_language(self) -> None:
        detail = f"Fehlgeschlagene Zeile enthält (1, null, {CANARY})."
        cause = Exception(f"NULL-Wert\nDETAIL:  {detail}")
        cause.sqlstate, cause.diag = "23502", SimpleNamespace(message_detail=detail)
        error = ValueError(str(cause))
        error.__cause__ = cause
        assert CANARY not in failure(error)
        assert "NULL-Wert" in failure(error)

    def test_notes_that_are_none_do_no_harm(self) -> None:
        error = ValueError("one line")
        error.__notes__ = 7
        assert "one line" in failure(error)


class TestLogs:
    def record(self, message: str, *arguments: object, exc_info: Any = None) -> logging.LogRecord:
        record = logging.LogRecord("django_pgqueue.worker", logging.ERROR, __file__, 1, message, arguments, exc_info)
        assert RedactingFilter().filter(record)
        return record

    def test_the_message_and_the_traceback_are_redacted(self) -> None:
        try:
            raise ValueError(f"password={CANARY}")
        except ValueError:
            record = self.record("it failed: %s", f"token={CANARY}", exc_info=sys.exc_info())
        text = logging.Formatter().format(record)
        assert CANARY not in text
        assert "it failed: token=" in text
        assert "ValueError: password=" in text

    def test_a_record_without_secrets_keeps_its_arguments(self) -> None:
        assert self.record("it failed: %s", "no").args == ("no",)

    def test_the_message_is_one_line_and_no_line_of_a_traceback_begins_as_a_record_does(self) -> None:
        forged = "a\r\n2026-01-01 00:00:00,000 INFO forged\x1b[2J\u2028\u202e"
        try:
            raise ValueError(forged)
        except ValueError:
            record = self.record("it failed: %s", forged, exc_info=sys.exc_info())
        first, *rest = logging.Formatter("%(message)s").format(record).split("\n")
        assert first == r"it failed: a\r\n2026-01-01 00:00:00,000 INFO forged\x1b[2J\u2028\u202e"
        assert rest[0] == "  Traceback (most recent call last):"
        assert r"  2026-01-01 00:00:00,000 INFO forged\x1b[2J\u2028\u202e" in rest
        assert all(line.startswith("  ") for line in rest)

    def test_all_loggers_of_the_queue_redact(self, caplog: pytest.LogCaptureFixture) -> None:
        sources = (path.read_text() for path in Path(django_pgqueue.__file__).parent.rglob("*.py"))
        names = {name for source in sources for name in re.findall(r'getLogger\("(django_pgqueue[\w.]*)"\)', source)}
        assert len(names) >= 3
        for name in names:
            logging.getLogger(name).error("password=%s", CANARY)
        assert set(caplog.messages) == {f"password={HIDDEN}"}
