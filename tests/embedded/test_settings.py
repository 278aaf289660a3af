from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from django_pgqueue.embedded import Cluster, EmbeddedError, databases, parse_url
from tests.embedded.conftest import query

MANAGE = Path(__file__).parents[2] / "testproject" / "manage.py"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch):
    for name in ("DATABASE_URL", "PGQUEUE_EMBEDDED_DIR", "PGQUEUE_EMBEDDED_BINARIES"):
        monkeypatch.delenv(name, raising=False)


def entry(**values: object) -> dict[str, object]:
    blank = {"NAME": "app", "USER": "", "PASSWORD": "", "HOST": "", "PORT": ""}
    return {"ENGINE": "django.db.backends.postgresql", **blank, **values}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgres:///app", entry()),
        (
            "postgresql://me:s%40cret%2F@db.example:5433/app",
            entry(USER="me", PASSWORD="s@cret/", HOST="db.example", PORT="5433"),
        ),
        ("postgresql://me@/app?host=/run/postgresql", entry(USER="me", HOST="/run/postgresql")),
        ("postgresql://%2Frun%2Fpostgresql/app", entry(HOST="/run/postgresql")),
        ("postgresql://[2001:db8::1]:5433/app", entry(HOST="2001:db8::1", PORT="5433")),
        ("postgresql://[2001:db8::1]/app", entry(HOST="2001:db8::1")),
        ("postgresql://one:5432,two:5433/app", entry(HOST="one,two", PORT="5432,5433")),
        (
            "postgresql://db/app?sslmode=verify-full&sslrootcert=/etc/ca%20s.pem",
            entry(HOST="db", OPTIONS={"sslmode": "verify-full", "sslrootcert": "/etc/ca s.pem"}),
        ),
        ("postgresql://db/gr%C3%B6%C3%9Fe?user=me&password=p", entry(NAME="größe", HOST="db", USER="me", PASSWORD="p")),
    ],
)
def test_a_url_becomes_an_entry_of_databases(url: str, expected: dict[str, object]):
    assert parse_url(url) == expected


@pytest.mark.parametrize("url", ["mysql://me:secret@db/app", "me:secret@db/app", "postgresql://me:secret@db"])
def test_a_url_that_cannot_work_is_refused_without_showing_the_password(url: str):
    with pytest.raises(EmbeddedError, match="DATABASE_URL") as raised:
        parse_url(url)
    assert "secret" not in str(raised.value)


def test_a_url_wins_and_starts_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://db.example/app?sslmode=require")
    found = databases(folder / "server")["default"]
    assert (found["HOST"], found["NAME"], found["OPTIONS"]) == ("db.example", "app", {"sslmode": "require"})
    assert not (folder / "server").exists()


def test_without_a_url_the_embedded_server_is_started_and_said_where(folder: Path, capsys: pytest.CaptureFixture[str]):
    found = databases(folder, name="flights")["default"]
    assert query(Cluster(folder), "SELECT current_database()", "flights") == "flights"
    address = [found[key] for key in ("HOST", "PORT", "NAME", "USER")]
    assert address == [str(folder / "data"), "5432", "flights", "postgres"]
    assert f"started, data in {folder / 'data'}" in capsys.readouterr().err

    assert databases(folder, name="flights")["default"] == found
    assert capsys.readouterr().err == ""


def test_the_variables_choose_folder_and_binaries(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PGQUEUE_EMBEDDED_DIR", str(folder / "elsewhere"))
    monkeypatch.setenv("PGQUEUE_EMBEDDED_BINARIES", "wheel")
    databases(folder / "unused", binaries="/nonexistent")
    assert not (folder / "unused").exists()
    assert Cluster(folder / "elsewhere").version == 18


def test_the_command_that_manages_it_does_not_find_it_started(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["manage.py", "embeddedpg", "status"])
    found = databases(folder / "server")["default"]
    assert found["EMBEDDED"] == {"folder": str(folder / "server"), "binaries": "auto", "name": "pgqueue"}
    assert not (folder / "server").exists()


def test_nothing_to_start_is_one_line_on_the_terminal(folder: Path):
    environment = {**os.environ, "PGQUEUE_EMBEDDED_DIR": str(folder), "PGQUEUE_EMBEDDED_BINARIES": "/nonexistent"}
    done = subprocess.run([sys.executable, MANAGE, "check"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("manage.py: No PostgreSQL 15 or newer for the choice '/nonexistent': `pip install")
    assert done.stderr.count("\n") == 1
