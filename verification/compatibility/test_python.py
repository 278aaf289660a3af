"""Which Python `make` sets its environment up with: the newest of the machine that is supported."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import REPOSITORY
from verification.compatibility.plan import PYTHONS

STUB = '#!/bin/sh\ncase "$2" in *"{version}"*) exit 0;; *) exit 1;; esac\n'


class Machine:
    """A folder with all programs that there are, and pyenv's beside it."""

    def __init__(self, folder: Path) -> None:
        self.programs, self.pyenv = folder / "bin", folder / "pyenv"
        self.programs.mkdir()
        for name in ("bash", "dirname", "grep", "cut", "sort"):
            (self.programs / name).symlink_to(shutil.which(name) or name)

    def has(self, path: Path, version: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STUB.format(version=version))
        path.chmod(0o755)
        return path

    def chosen(self) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.programs), "HOME": str(self.pyenv), "PYENV_ROOT": str(self.pyenv)}
        return subprocess.run(
            [REPOSITORY / ".ci" / "python"], env=environment, capture_output=True, text=True, check=False
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_newest_is_chosen(machine: Machine) -> None:
    for version in PYTHONS:
        newest = machine.has(machine.programs / f"python{version}", f"'{version}'")
    assert machine.chosen().stdout == f"{newest}\n"


def test_also_where_it_is_not_on_the_path(machine: Machine) -> None:
    machine.has(machine.programs / "python3", "'3.11'")
    # pyenv's shim of a version that is not chosen.
    machine.has(machine.programs / f"python{PYTHONS[-1]}", "never")
    newest = machine.has(machine.pyenv / "versions" / f"{PYTHONS[-1]}.7" / "bin" / "python3", f"'{PYTHONS[-1]}'")
    assert machine.chosen().stdout == f"{newest}\n"


def test_one_python_alone_does(machine: Machine) -> None:
    alone = machine.has(machine.programs / "python3", "'3.11'")
    assert machine.chosen().stdout == f"{alone}\n"


def test_a_python_that_is_newer_than_all_that_are_tested_is_better_than_none(machine: Machine) -> None:
    newer = machine.has(machine.programs / "python3", "version_info < (3, 11)")
    assert machine.chosen().stdout == f"{newer}\n"


def test_without_any_it_says_what_to_install(machine: Machine) -> None:
    machine.has(machine.programs / "python3", "never")
    done = machine.chosen()
    assert done.returncode == 1
    assert "apt-get install python3 python3-venv" in done.stderr


def test_the_python_of_this_machine_is_found() -> None:
    done = subprocess.run([REPOSITORY / ".ci" / "python"], capture_output=True, text=True, check=True, env=os.environ)
    probe = "import sys; print('%d.%d' % sys.version_info[:2])"
    version = subprocess.run([done.stdout.strip(), "-c", probe], capture_output=True, text=True, check=True).stdout
    assert tuple(map(int, version.split("."))) >= (3, 11)
