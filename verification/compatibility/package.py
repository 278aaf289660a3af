"""The wheel in an empty environment: a project in an empty folder, an embedded server, a message that is worked off."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.paths import REPOSITORY
from verification.compatibility.environments import PIP, NotInstalled, run

BUILD = "import hatchling.build, sys; print(getattr(hatchling.build, sys.argv[1])(sys.argv[2]))"
EXTRAS = "embedded,tasks,prometheus,otel,sentry,cron,pool"
SETTINGS = """
from django_pgqueue.embedded import databases
DATABASES = databases(BASE_DIR)
INSTALLED_APPS += ["pgtrigger", "django_pgqueue", "shop"]
"""
HANDLERS = """
from django_pgqueue import handler

@handler("shop.greet", atomic=True)
def greet(delivery):
    print("hello", delivery.payload["name"])
"""
ENQUEUE = "from django_pgqueue import enqueue; enqueue('shop.greet', {'name': 'Ada'})"


def build(what: str, folder: Path, source: Path = REPOSITORY) -> Path:
    """``what``: build_wheel or build_sdist. Returns the file."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, what, str(folder)], cwd=source, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotInstalled(f"{what} failed:\n{done.stderr[-3000:]}")
    return folder / done.stdout.split()[-1]


def try_out(interpreter: str, wheel: Path | None = None) -> str:
    """Let a new project work with the wheel, and return what was tried. Raise NotInstalled, with what failed.

    wheel   the file; without one, it is built from the tree
    """
    with tempfile.TemporaryDirectory(prefix="pgqueue-package-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        wheel = wheel or build("build_wheel", folder)
        environment = folder / "environment"
        run(interpreter, "-m", "venv", "--without-pip", str(environment))
        python = environment / "bin" / "python"
        run(*PIP, "--python", str(python), "install", "--no-compile", f"{wheel}[{EXTRAS}]")
        project = folder / "project"
        project.mkdir()
        newcomer = Newcomer(project, python)
        newcomer.types("-m", "django", "startproject", "mysite", ".")
        newcomer.types("manage.py", "startapp", "shop")
        with open(project / "mysite" / "settings.py", "a") as settings:
            settings.write(SETTINGS)
        (project / "shop" / "handlers.py").write_text(HANDLERS)
        try:
            newcomer.types("manage.py", "migrate", "--verbosity", "0")
            newcomer.types("manage.py", "check", "--database", "default", "--fail-level", "ERROR")
            newcomer.types("manage.py", "shell", "-c", ENQUEUE)
            said = newcomer.types("manage.py", "runqueueworker", "--drain")
        finally:
            newcomer.types("manage.py", "embeddedpg", "destroy")
        if "hello Ada" not in said or "1 completed" not in said:
            raise NotInstalled(f"the worker did not do its work:\n{said}")
        return f"{wheel.name} with {EXTRAS}"


class Newcomer:
    def __init__(self, folder: Path, python: Path) -> None:
        ours = ("PYTHONPATH", "DATABASE_URL", "DJANGO_SETTINGS_MODULE", "VIRTUAL_ENV")
        self._environment = {name: value for name, value in os.environ.items() if name not in ours}
        self._folder = folder
        self._python = python

    def types(self, *command: str) -> str:
        done = subprocess.run(
            [self._python, "-W", "error", *command], cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
        )  # fmt: skip
        if done.returncode:
            raise NotInstalled(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stdout[-3000:]}")
        return done.stdout
