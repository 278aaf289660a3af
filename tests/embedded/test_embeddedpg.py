"""The command, in processes of its own: its settings must not start the server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MANAGE = Path(__file__).parents[2] / "testproject" / "manage.py"
EmbeddedPg = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def embeddedpg(folder: Path) -> EmbeddedPg:
    def embeddedpg(action: str, script: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PGQUEUE_EMBEDDED_DIR": str(folder / "server"), **variables}
        if "DATABASE_URL" not in variables:
            environment.pop("DATABASE_URL", None)
        command = [sys.executable, MANAGE, "embeddedpg", action]
        return subprocess.run(command, env=environment, input=script, capture_output=True, text=True)

    return embeddedpg


def test_the_actions_in_their_order(embeddedpg: EmbeddedPg, folder: Path):
    assert "absent" in embeddedpg("status").stdout
    assert "The server was not running." in embeddedpg("stop").stdout

    started = embeddedpg("start").stdout
    assert "The server was started." in started
    assert f"data:    {folder / 'server' / 'data'}" in started
    assert f"url:     postgresql://postgres@/testproject?host={folder / 'server' / 'data'}" in started
    assert "The server runs already." in embeddedpg("start").stdout

    asked = embeddedpg("psql", "SELECT 'on ' || current_database();")
    assert "on testproject" in asked.stdout

    assert "The server was stopped." in embeddedpg("stop").stdout
    assert "stopped" in embeddedpg("status").stdout
    assert "The server and its data were removed." in embeddedpg("destroy").stdout
    assert "There is no server" in embeddedpg("destroy").stdout
    assert not (folder / "server").exists()


def test_psql_starts_what_it_needs_with_the_chosen_binaries(embeddedpg: EmbeddedPg):
    asked = embeddedpg("psql", "SHOW server_version;", PGQUEUE_EMBEDDED_BINARIES="wheel")
    assert "18." in asked.stdout


def test_it_says_that_the_project_uses_another_server(embeddedpg: EmbeddedPg):
    done = embeddedpg("status", DATABASE_URL="postgresql://db.example/app")
    assert done.returncode == 0
    assert "DATABASE_URL is set" in done.stderr


def test_an_error_is_one_line(embeddedpg: EmbeddedPg):
    done = embeddedpg("start", PGQUEUE_EMBEDDED_BINARIES="/nonexistent")
    assert done.returncode == 1
    assert done.stderr.startswith("CommandError: No PostgreSQL 15 or newer for the choice '/nonexistent'")
    assert done.stderr.count("\n") == 1


def test_a_project_without_an_embedded_server_gets_an_error(tmp_path: Path):
    (tmp_path / "plain_settings.py").write_text(
        "SECRET_KEY = 'x'\nINSTALLED_APPS = ['django.contrib.contenttypes', 'pgtrigger', 'django_pgqueue']\n"
        "DATABASES = {'default': {'ENGINE': 'django.db.backends.postgresql', 'NAME': 'app'}}\n"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "plain_settings", "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "django", "embeddedpg", "status"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "there is no embedded server to manage" in done.stderr
