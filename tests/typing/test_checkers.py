"""A project of a user, checked by mypy --strict and by pyright: only the lines that end with ``# error`` have one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent / "project"
README = Path(__file__).parents[2] / "README.md"
Lines = set[tuple[str, int]]


def wanted(project: Path) -> Lines:
    return {
        (path.relative_to(project).as_posix(), number)
        for path in project.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.endswith("# error")
    }


def mypy(project: Path, tmp_path: Path) -> Lines:
    done = run(project, "-m", "mypy", "--output", "json", "--cache-dir", str(tmp_path / "mypy"))
    assert done.returncode in (0, 1), done.stdout + done.stderr
    errors = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(error["file"], error["line"]) for error in errors if error["severity"] == "error"}


def pyright(project: Path, tmp_path: Path) -> Lines:
    done = run(project, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    errors = json.loads(done.stdout)["generalDiagnostics"]
    return {
        (Path(error["file"]).relative_to(project).as_posix(), error["range"]["start"]["line"] + 1) for error in errors
    }


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(project), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    return subprocess.run(
        [sys.executable, *arguments], cwd=project, env=environment, capture_output=True, text=True, check=False
    )


Checker = Callable[[Path, Path], Lines]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("checker", [mypy, pyright], ids=lambda checker: checker.__name__)
def test_right_lines_pass_and_wrong_ones_are_errors(checker: Checker, tmp_path: Path) -> None:
    expected = wanted(PROJECT)
    assert len(expected) > 10
    assert checker(PROJECT, tmp_path) == expected


@pytest.mark.timeout(300)
def test_the_lines_of_the_readme_pass(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name, source in re.findall(r"^```python file=(\S+)\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(source)
    assert (project / "shop/handlers.py").exists()
    (project / "shop/__init__.py").touch()
    (project / "pyproject.toml").write_text('[tool.pyright]\ninclude = ["shop"]\n')
    assert pyright(project, tmp_path) == set()
