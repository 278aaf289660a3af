from __future__ import annotations

import pytest

from django_pgqueue.spark.redaction import redact_secrets, secrets_of
from tests.support.cases import cases


@pytest.fixture(autouse=True)
def _no_secrets_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGPASSWORD", "PGQUEUE_SOURCE", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)


@cases(
    ("text", "shown"),
    [
        ("at postgresql://ada:c4n4ry!@db/shop", "at postgresql://ada:********@db/shop"),
        ("host=db password=c4n4ry! user=ada", "host=db password=******** user=ada"),
        (r"password = 'c4n4\'ry! x' user=ada", "password = ******** user=ada"),
        ("postgresql:///shop?password=c4n4ry!&user=ada", "postgresql:///shop?password=********&user=ada"),
        ("a port is no password: postgresql://db:5432/shop", "a port is no password: postgresql://db:5432/shop"),
    ],
)
def test_passwords_are_hidden_where_they_are_known_by_their_place(text: str, shown: str):
    assert redact_secrets(text) == shown


@cases(
    "dsn", ["postgresql://ada:c4n4%20ry@db/shop", r"host=db password='c4n4 ry'", "postgresql:///?password=c4n4%20ry"]
)
def test_the_password_of_a_source_is_hidden_anywhere(dsn: str):
    assert redact_secrets("it said: <c4n4 ry>, c4n4%20ry", secrets_of(dsn)) == "it said: <********>, ********"


def test_the_password_of_the_environment_is_hidden(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PGPASSWORD", "c4n4ry!")
    monkeypatch.setenv("PGQUEUE_SOURCE", "host=db password=other-one")
    assert redact_secrets("c4n4ry! and other-one", secrets_of()) == "******** and ********"


def test_a_short_password_does_not_blot_out_words(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PGPASSWORD", "post")
    assert redact_secrets("postgresql said post", secrets_of()) == "postgresql said ********"
