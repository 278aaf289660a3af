"""Each wrong setting is named by a check, and right ones are silent."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from django_pgqueue.checks import configuration
from django_pgqueue.conf import DEFAULTS
from tests.schema.test_checks import ours
from tests.support.cases import cases
from tests.support.paths import REPOSITORY


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty packages in place of those for the pipeline, which need not be installed here."""
    for name in ("pyspark", "pyarrow"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


# Settings


@cases(
    ("given", "problem", "words"),
    [
        ([], "pgqueue.E001", "not a dict but list"),
        ({"LEAES": timedelta(seconds=5)}, "pgqueue.E002", "'LEAES'"),
        ({5: 5}, "pgqueue.E002", "5"),
        ({"LEASE": 15}, "pgqueue.E003", "timedelta longer than zero"),
        ({"LEASE": timedelta(0)}, "pgqueue.E003", "timedelta longer than zero"),
        ({"LEASE": None}, "pgqueue.E003", "timedelta longer than zero"),
        ({"ARCHIVE_RETENTION": 30}, "pgqueue.E003", "or None"),
        ({"MAX_ATTEMPTS": 0}, "pgqueue.E003", "at least 1"),
        ({"MAX_ATTEMPTS": True}, "pgqueue.E003", "at least 1"),
        ({"AUTO_CREATE_CHANNELS": "yes"}, "pgqueue.E003", "True or False"),
        ({"DATABASE": 5}, "pgqueue.E003", "database alias"),
        ({"LISTEN_DATABASE": True}, "pgqueue.E003", "alias or None"),
        ({"NOTIFY": "sometimes"}, "pgqueue.E003", "waiting"),
        ({"ENQUEUE_CONTEXT": "shop.tenant"}, "pgqueue.E003", "list of dotted paths"),
        ({"HANDLER_MIDDLEWARE": [7]}, "pgqueue.E003", "list of dotted paths"),
        ({"SET_LOCAL": {"app.tenant; DROP": "tenant"}}, "pgqueue.E003", "PostgreSQL's settings"),
        ({"SET_LOCAL": {"app.tenant": None}}, "pgqueue.E003", "PostgreSQL's settings"),
        ({"SET_LOCAL_HEADERS": "tenant"}, "pgqueue.E003", "a list of keys"),
        ({"SET_LOCAL_HEADERS": [None]}, "pgqueue.E003", "a list of keys"),
        (
            {"SET_LOCAL": {"app.tenant": "tenant", "role": "role"}, "SET_LOCAL_HEADERS": ["role"]},
            "pgqueue.W005",
            "PostgreSQL's role for its handler",
        ),
        ({"HANDLER_MIDDLEWARE": ["nowhere.at_all"]}, "pgqueue.E009", "No module named 'nowhere'"),
        ({"ENQUEUE_CONTEXT": ["django_pgqueue.__version__"]}, "pgqueue.E009", "cannot be called"),
        ({"LAKE": 5}, "pgqueue.E003", "a path or None"),
        ({"LAKE": ""}, "pgqueue.E003", "a path or None"),
        ({"KEEP_UNTIL_EXPORTED": "yes"}, "pgqueue.E003", "True or False"),
        ({"TRACE_URL": "https://jaeger.example.org/"}, "pgqueue.E003", "{trace_id}"),
        ({"TRACE_URL": "javascript:alert('{trace_id}')"}, "pgqueue.E003", "web address"),
        ({"LOG_CAPTURE": "LOUD"}, "pgqueue.E003", "name of a level"),
        ({"LOG_CAPTURE": 20}, "pgqueue.E003", "name of a level"),
        ({"SLA": {"mails": 30}}, "pgqueue.E003", "timedeltas"),
        ({"SLA": {"": timedelta(seconds=1)}}, "pgqueue.E003", "timedeltas"),
        ({"LIMITS": ["stripe"]}, "pgqueue.E003", "names of limits"),
        ({"LIMITS": {"stripe": 20}}, "pgqueue.E003", "names of limits"),
        ({"DATABASE": "nowhere"}, "pgqueue.E004", "no such alias"),
        ({"LISTEN_DATABASE": "nowhere"}, "pgqueue.E004", "no such alias"),
    ],
)
def test_a_wrong_setting_is_named(given: Any, problem: str, words: str) -> None:
    with override_settings(DJANGO_PGQUEUE=given):
        found = ours(["default"])
    assert list(found) == [problem]
    assert words in found[problem].msg


@cases(
    "given",
    [
        {},
        DEFAULTS,
        {
            "DATABASE": "default",
            "NOTIFY": "never",
            "LISTEN_DATABASE": None,
            "ARCHIVE_RETENTION": None,
            "MAX_ATTEMPTS": 1,
        },
        {
            "ENQUEUE_CONTEXT": ["django_pgqueue.contrib.context.trace.capture", dict],
            "HANDLER_MIDDLEWARE": ("django_pgqueue.contrib.context.set_local.restore",),
            "SET_LOCAL": {"role": "role", "app.tenant": "tenant"},
        },
        {"LIMITS": {"stripe": {"max_concurrency": 20, "rate": "100/s burst 50"}}},
        {"AUTO_CREATE_CHANNELS": True, "LEASE": timedelta(milliseconds=1), "DEAD_LETTER_RETENTION": timedelta(days=1)},
        {"LAKE": Path("/srv/lake"), "KEEP_UNTIL_EXPORTED": True, "SLA": {"mails/vip": timedelta(seconds=10)}},
    ],
)
def test_right_settings_are_taken(given: dict[str, Any], stand_ins: Path) -> None:
    with override_settings(DJANGO_PGQUEUE=given):
        assert ours() == {}


def test_retention_that_waits_for_a_lake_that_is_not_set() -> None:
    with override_settings(DJANGO_PGQUEUE={"KEEP_UNTIL_EXPORTED": True}):
        assert "grows for ever" in ours()["pgqueue.W003"].msg


def test_a_lake_without_spark(stand_ins: Path) -> None:
    program = """
import sys
sys.modules["pyspark"] = None
import django
from django.conf import settings
from django.core.management import call_command
settings.DJANGO_PGQUEUE = {"LAKE": "/srv/lake"}
django.setup()
call_command("check")
"""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "testproject.settings", "PYTHONPATH": str(stand_ins)}
    command, project = [sys.executable, "-c", program], REPOSITORY / "testproject"
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True)
    assert "pgqueue.W002" in done.stderr
    assert "but pyspark cannot be imported" in done.stderr


def test_every_setting_has_a_rule() -> None:
    assert [name for name in DEFAULTS if configuration.rule_of(name) is None] == []


@pytest.mark.parametrize(
    ("codec", "problem"),
    [
        ("shop.codecs.Missing", "cannot be made: ModuleNotFoundError"),
        ("django_pgqueue.codecs.Place", "cannot be made: TypeError"),
        ("tests.support.codecs.Bare", "has no encode"),
    ],
)
def test_a_codec_that_cannot_work_is_found(settings: Any, codec: str, problem: str) -> None:
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": codec}
    found = configuration.check_settings()
    assert {message.id for message in found} == {"pgqueue.E023"}
    assert problem in found[0].msg


def test_a_codec_of_the_project_passes(settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": "tests.support.codecs.Toy"}
    assert configuration.check_settings() == []
