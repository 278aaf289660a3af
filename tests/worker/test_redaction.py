"""Canaries through a whole worker: neither the tables nor the log hold what handlers let slip into errors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.test import override_settings

from tests.support.sql import sql
from tests.worker.conftest import script

Drain = Callable[..., dict[str, int]]
CANARY = "canary-7f3a"
TABLE = "CREATE TEMP TABLE card (number text, pin text NOT NULL, token text UNIQUE, CHECK (number <> pin))"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([["fail", f"login with password={CANARY}"]], "login with"),
        ([["fail", f"the gateway says {CANARY} is wrong"]], "the gateway says"),
        ([["retry", 0, f"token: {CANARY}"]], "token"),
        ([["sql", TABLE], ["sql", "INSERT INTO card VALUES (%s, NULL, 'a')", CANARY]], "null value in column"),
        ([["sql", TABLE], ["sql", f"INSERT INTO card VALUES ('{CANARY}', '{CANARY}')"]], "violates check constraint"),
        (
            [["sql", TABLE], ["sql", "INSERT INTO card VALUES ('a', 'b', %s), ('a', 'c', %s)", CANARY, CANARY]],
            "(token)=",
        ),
    ],
    ids=["key and value", "known value", "words of Retry", "NOT NULL", "CHECK", "UNIQUE"],
)
@override_settings(GATEWAY_TOKEN=CANARY)
def test_a_secret_in_an_error_is_neither_kept_nor_logged(
    drain: Drain, caplog: pytest.LogCaptureFixture, steps: list[Any], expected: str
) -> None:
    with caplog.at_level(logging.DEBUG, logger="django_pgqueue"):
        message = script(*steps, handler="scripted.atomic", max_attempts=2)
        assert drain() == {"retried": 1, "dead_lettered": 1}
    errors = sql("SELECT errors::text FROM pgqueue_dead_letter WHERE id = %s", message)[0][0]
    for text in (errors, caplog.text):
        assert expected in text
        assert CANARY not in text
