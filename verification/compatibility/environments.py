"""Where the combinations are installed: a virtual environment a Python, and a folder a Django that is put before it.

All of it is in .pgqueue/matrix and kept there, so only the first run installs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.paths import REPOSITORY
from tests.tasks.django_suite import source
from verification.compatibility.plan import Combination

HOME = REPOSITORY / ".pgqueue" / "matrix"
CONSTRAINTS = REPOSITORY / "constraints.txt"
TOOLS = ("pytest", "pytest-django", "pytest-timeout", "pytest-xdist", "hypothesis")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
INSTALL = ("install", "--no-compile", "--upgrade")
"""Compiled apart, see ``compiled``: a folder is for each Python that uses it."""


class NotInstalled(Exception):
    """pip failed; the text is its output."""


def requirements() -> list[str]:
    tools = [text for text in extras()["test"] if text.startswith(TOOLS)]
    return [*project()["dependencies"], *extras()["pool"], *extras()["tasks"], *extras()["testing"], *tools]


def extras() -> dict[str, list[str]]:
    return project()["optional-dependencies"]


def project() -> dict[str, Any]:
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def python(interpreter: str, version: str) -> Path:
    """The virtual environment of this Python."""
    folder = HOME / f"python-{version}"

    def install() -> None:
        run(interpreter, "-m", "venv", "--clear", "--without-pip", str(folder))
        pip(folder, *INSTALL, "--constraint", str(CONSTRAINTS), *requirements())

    return once(folder, [interpreter, CONSTRAINTS.read_text(), *requirements()], install)


def django(version: str, environment: Path) -> Path:
    """The newest release of this Django, which is the same for every Python that it runs on."""
    folder = HOME / f"django-{version}"

    def install() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        pip(environment, *INSTALL, "--no-deps", "--target", str(folder), f"django=={version}.*")

    return once(folder, [version], install)


def django_tests(folder: Path, environment: Path) -> None:
    """The tests of this Django, for tests/tasks/test_django_suite.py."""
    [metadata] = folder.glob("[dD]jango-*.dist-info")
    release = metadata.name.removesuffix(".dist-info").partition("-")[2]
    try:
        source.fetch(release, [*PIP, "--python", str(environment / "bin" / "python")])
    except subprocess.CalledProcessError as problem:
        raise NotInstalled(str(problem)) from problem


def psycopg_in_c(version: str, environment: Path) -> Path:
    """Compiled here, so it needs a C compiler and the headers of libpq and Python; in a folder, as Django is."""
    folder = HOME / f"psycopg-c-{version}"
    wanted = extras()["c"]

    def install() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        # Quickly: we want to know whether it works, not how fast.
        pip(environment, *INSTALL, "--target", str(folder), *wanted, CFLAGS="-O0")

    return once(folder, wanted, install)


def compiled(version: str, environment: Path, *folders: Path) -> None:
    """Compile what is installed for this Python: the tests start hundreds of processes, which read it all."""
    for folder in (environment, *folders):
        receipt = folder / f".compiled-{version}"
        if not receipt.exists():
            # A file for a later Python does not compile, and is not imported.
            subprocess.run([environment / "bin" / "python", "-m", "compileall", "-qq", folder], check=False)
            receipt.touch()


def variables(combination: Combination, *folders: Path) -> dict[str, str]:
    """The environment of the tests: no packages and settings but those of the combination."""
    ours = ("PYTHONPATH", "DATABASE_URL", "DJANGO_SETTINGS_MODULE", "PYTEST_ADDOPTS", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    path = [*folders, REPOSITORY, REPOSITORY / "testproject", REPOSITORY / "django_pgqueue" / "spark" / "provider"]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        # In the processes that tests start; pytest has its own setting.
        "PYTHONWARNINGS": "error",
        "PSYCOPG_IMPL": combination.psycopg,
        "PGQUEUE_MATRIX": f"{combination.python} {combination.django} {combination.psycopg}",
    }


def once(folder: Path, parts: list[str], install: Callable[[], None]) -> Path:
    """Install unless a receipt says that the same was installed."""
    receipt = folder / f".installed-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"
    if not receipt.exists():
        install()
        receipt.touch()
    return folder


def pip(environment: Path, *arguments: str, **more: str) -> None:
    run(*PIP, "--python", str(environment / "bin" / "python"), *arguments, **more)


def run(*command: str, **more: str) -> None:
    done = subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotInstalled(f"{' '.join(command)}:\n{(done.stdout + done.stderr)[-3000:]}")
