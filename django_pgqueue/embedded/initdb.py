"""Make a data directory in UTF-8: the owner of the socket is trusted, and connections over the network are rejected."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from django_pgqueue.embedded.account import Account
from django_pgqueue.embedded.binaries import Binaries
from django_pgqueue.embedded.errors import EmbeddedError

SUPERUSER = "postgres"
DEVELOPMENT = {
    "shared_buffers": "256MB",
    "max_connections": "200",
    "logging_collector": "off",
    "log_line_prefix": "%m [%p] %a ",
}


def make_data(data: Path, account: Account, binaries: Binaries, settings: Mapping[str, str]) -> None:
    """Make the data directory, completely or not at all: it gets its name when all is in it. Raises EmbeddedError."""
    partial = partial_of(data)
    shutil.rmtree(partial, ignore_errors=True)
    for locale in ("C.UTF-8", "C"):  # not every system has the first
        partial.mkdir(mode=0o700)
        os.chown(partial, account.uid, account.gid)
        made = account.run(_initdb(binaries, partial, locale, sync=settings.get("fsync") != "off"))
        if made.returncode == 0:
            break
        shutil.rmtree(partial)
    else:
        raise EmbeddedError(f"initdb of {binaries} failed: {last_line(made.stderr)}")
    descriptor = os.open(partial / "postgresql.conf", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "w") as file:
        file.write("\n# written when the embedded server's data was made\n")
        file.writelines(f"{name} = {_quoted(value)}\n" for name, value in settings.items())
    partial.rename(data)


def partial_of(data: Path) -> Path:
    """Return where a data directory is made before it is moved to ``data``."""
    return data.with_name("data.partial")


def last_line(text: str) -> str:
    """Return the last line of a program's output, for an error message."""
    return (text.strip().splitlines() or ["no message"])[-1]


def _initdb(binaries: Binaries, data: Path, locale: str, *, sync: bool) -> list[str | Path]:
    command: list[str | Path] = [
        binaries.program("initdb"),
        "-D",
        data,
        "-U",
        SUPERUSER,
        "-E",
        "UTF8",
        f"--locale={locale}",
    ]
    command += ["--auth-local=trust", "--auth-host=reject", "--no-instructions"]
    return command if sync else [*command, "--no-sync"]


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
