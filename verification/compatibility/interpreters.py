"""The Pythons of this machine: on the PATH, pyenv's, uv's. None is downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

PROBE = "import ssl, sqlite3, venv, sys; print('%d.%d' % sys.version_info[:2], sys.base_prefix)"


def find(version: str) -> str | None:
    """A Python of this version that can make virtual environments."""
    return next((str(path) for path in candidates(version) if is_of(path, version)), None)


def candidates(version: str) -> Iterator[Path]:
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)
    home = Path.home()
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions"
    data = Path(os.environ.get("XDG_DATA_HOME", home / ".local" / "share"))
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", data / "uv" / "python"))
    for folder in [*pyenv.glob(f"{version}.*"), *uv.glob(f"cpython-{version}.*")]:
        yield folder / "bin" / "python3"


def is_of(path: Path, version: str) -> bool:
    """pyenv puts programs on the PATH which only say that another version is chosen."""
    try:
        done = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.split()[0] == version
