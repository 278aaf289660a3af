"""The matrix tests what it says, and says what it does not test."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import django
import psycopg
import pytest

from tests.support.paths import REPOSITORY
from verification.compatibility import environments, interpreters
from verification.compatibility.plan import DJANGOS, PYTHONS, TELLING, WHOLE, combinations


@pytest.mark.skipif("PGQUEUE_MATRIX" not in os.environ, reason="of a run of the matrix")
def test_it_runs_on_what_the_matrix_says() -> None:
    python, version, implementation = os.environ["PGQUEUE_MATRIX"].split()
    assert "%d.%d" % sys.version_info[:2] == python  # noqa: UP031
    assert "%d.%d" % django.VERSION[:2] == version  # noqa: UP031
    assert psycopg.pq.__impl__ == implementation


def test_every_combination_that_exists_is_there() -> None:
    assert [(one.python, one.django) for one in combinations()] == [
        ("3.11", "5.2"),
        ("3.12", "5.2"), ("3.12", "6.0"), ("3.12", "6.1"),
        ("3.13", "5.2"), ("3.13", "6.0"), ("3.13", "6.1"),
    ]  # fmt: skip
    assert {one.psycopg for one in combinations()} == {"binary", "c"}
    assert {one.server for one in combinations()} == {"system", "wheel"}


def test_the_package_declares_what_the_matrix_tests() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={PYTHONS[0]}"
    assert any(text.startswith(f"django>={DJANGOS[0]}") for text in project["dependencies"])
    for title, versions in (("Programming Language :: Python", PYTHONS), ("Framework :: Django", DJANGOS)):
        declared = [text.rpartition(" ")[2] for text in project["classifiers"] if text.startswith(f"{title} ::")]
        assert sorted(version for version in declared if "." in version) == list(versions)


def test_the_tests_that_it_names_exist() -> None:
    assert [name for name in (*TELLING, *WHOLE) if not (REPOSITORY / name.partition("::")[0]).exists()] == []


def test_a_python_that_is_missing_is_skipped_loudly(tmp_path: Path) -> None:
    """On a machine with nothing: no Python on the PATH, none of pyenv's, none of uv's."""
    bare = {**os.environ, "PATH": str(tmp_path), "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path)}
    bare |= {"XDG_DATA_HOME": str(tmp_path), "UV_PYTHON_INSTALL_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "verification.compatibility", "--only", "3.13", "6.1"],
        cwd=REPOSITORY, env=bare, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "SKIPPED: Python 3.13, Django 6.1" in done.stdout, done.stderr
    assert "NOT EVERYTHING WAS RUN" in done.stdout
    assert done.returncode == 1, "nothing at all was run"


def test_the_wheel_that_is_named_is_tried_and_no_other(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "verification.compatibility", "--wheel", str(tmp_path / "missing-1.0-py3-none-any.whl")],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "FAILED: The wheel in an empty environment" in done.stdout, done.stderr
    assert "missing-1.0-py3-none-any.whl" in done.stdout
    assert done.returncode == 1


def test_a_program_that_only_stands_for_another_python_is_not_taken(tmp_path: Path) -> None:
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.12: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    assert not interpreters.is_of(shim, "3.12")
    assert interpreters.is_of(Path(sys.executable), "%d.%d" % sys.version_info[:2])  # noqa: UP031


def test_another_requirement_means_installing_anew(tmp_path: Path) -> None:
    installed: list[str] = []
    for part in ("django==5.2.*", "django==5.2.*", "django==6.0.*"):
        environments.once(tmp_path, [part], partial(installed.append, part))
    assert installed == ["django==5.2.*", "django==6.0.*"]
