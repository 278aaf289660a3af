"""Choose the account that the server runs as: the present one, or for root an unprivileged one, because PostgreSQL
refuses to run as root."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django_pgqueue.embedded.errors import EmbeddedError

UNPRIVILEGED = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """Describe an account of the system."""

    name: str
    uid: int
    gid: int

    @property
    def is_ours(self) -> bool:
        """Return whether it is the account of this process."""
        return self.uid == os.geteuid()

    def run(self, command: Sequence[str | Path], *, script: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program of PostgreSQL as this account and return its output. It does not raise on a failure."""
        identity: dict[str, Any] = {} if self.is_ours else {"user": self.uid, "group": self.gid, "extra_groups": []}
        # Without a script the program must not read from this process's terminal.
        source: dict[str, Any] = {"stdin": subprocess.DEVNULL} if script is None else {"input": script}
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [str(part) for part in command],
            **source,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd="/",  # the current folder may be closed to this account
            env=_environment(),
            umask=0o077,
            **identity,
        )
        return done

    def can_enter(self, folder: Path) -> bool:
        """Return whether the account may enter the folder."""
        return self.run(["/bin/sh", "-c", 'cd -- "$1"', "sh", folder]).returncode == 0

    def can_execute(self, program: Path) -> bool:
        """Return whether the account may run the program."""
        try:
            return self.run([program, "--version"]).returncode == 0
        except OSError:
            return False


def account_for(folder: Path, data: Path, requested: str | None = None) -> Account:
    """Return the account for a server: the owner of existing data, or else this process's own.

    For root it is ``requested``, the folder's owner, `postgres` or `nobody`. Raises EmbeddedError if there is none.
    """
    if os.geteuid() != 0:
        return _own_account(data)
    if data.exists():
        return _from_uid(data.stat().st_uid)
    if requested is not None:
        return _from_name(requested)
    if folder.exists() and (owner := folder.stat().st_uid) != 0:
        return _from_uid(owner)
    for name in UNPRIVILEGED:
        try:
            return _from_name(name)
        except EmbeddedError:
            continue
    raise EmbeddedError(
        "PostgreSQL does not run as root and there is neither a user postgres nor nobody: run as a normal user, "
        "or create one with `useradd --system postgres`."
    )


def _own_account(data: Path) -> Account:
    uid = os.geteuid()
    if data.exists() and (owner := data.stat().st_uid) != uid:
        raise EmbeddedError(
            f"{data} belongs to another user (uid {owner}): run as that user, or choose another folder."
        )
    return _from_uid(uid)


def _from_uid(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedError(
            f"The uid {uid} has no entry in /etc/passwd, which PostgreSQL requires: add one, or set DATABASE_URL."
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _from_name(name: str) -> Account:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise EmbeddedError(f"There is no user {name!r} to run PostgreSQL as.") from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _environment() -> dict[str, str]:
    # PGDATA, PGHOST, PGOPTIONS … of the caller would send the programs to another server.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG") and name != "LANGUAGE"}
    return {**kept, "LC_ALL": "C"}
