"""Where Django's tests are: in its source distribution, which pip brings. None of it is in this repository."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import django

from tests.support.paths import REPOSITORY

HOME = REPOSITORY / ".pgqueue" / "django-tests"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
# From 6.0 on, Django has the Tasks framework.
FIRST = 6


def folder(version: str = django.__version__) -> Path:
    return HOME / version


def fetch(version: str = django.__version__, pip: Sequence[str] = PIP) -> Path | None:
    """Bring ``tests/tasks`` of this release of Django, unless it is here.

    ``pip``: a pip of a Python that this Django runs on. Returns the folder, or None for a Django without tasks. Raises
    CalledProcessError if pip fails.
    """
    if int(version.partition(".")[0]) < FIRST:
        return None
    if not folder(version).exists():
        HOME.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME) as name:
            options = ("--no-deps", "--no-binary", "django", "--dest", name)
            subprocess.run([*pip, "download", *options, f"django=={version}"], check=True)
            [archive] = Path(name).glob("*.tar.gz")
            unpack(archive, folder(version))
    return folder(version)


def unpack(archive: Path, target: Path) -> None:
    with tarfile.open(archive) as packed:
        inside = f"{packed.getnames()[0].partition('/')[0]}/tests/tasks"
        chosen = [member for member in packed.getmembers() if member.name.startswith(f"{inside}/")]
        packed.extractall(archive.parent, chosen, filter="data")
    (archive.parent / inside).rename(target)
