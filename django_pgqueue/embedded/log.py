"""Prepare the log of the server, and find the reason of a failed start in it."""

from __future__ import annotations

import os
from pathlib import Path

from django_pgqueue.embedded.account import Account

LARGEST_LOG_BYTES = 10 * 1024 * 1024  # a larger log is renamed when the server starts


def make_log_file(log: Path, account: Account) -> None:
    """Create the log for the account, and rename a log that has become too large."""
    if log.exists() and log.stat().st_size > LARGEST_LOG_BYTES:
        log.rename(log.with_suffix(".log.1"))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    os.fchown(descriptor, account.uid, account.gid)
    os.close(descriptor)


def fatal_line(log: Path, offset: int) -> str:
    """Return the first FATAL message after ``offset`` (bytes), or an empty text."""
    with log.open("rb") as file:
        file.seek(offset)
        lines = file.read().decode(errors="replace").splitlines()
    return next((line[line.index("FATAL:") :] for line in lines if "FATAL:" in line), "")
