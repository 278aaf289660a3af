"""Make a folder for the files that Spark writes beside its results: shuffles, spills, native libraries."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "pgqueue-spark-"
LOCK = "lock"


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Make a new folder, and remove it at the end. Folders of killed processes are removed first.

    They may hold gigabytes. A folder is in use while its file `lock` is locked; the kernel releases the lock when the
    process ends.
    """
    parent = parent or Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    folder, lock = _make(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make(parent: Path) -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        # The lock is not inherited: the JVM ends a little later than this process, and would keep it.
        lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        if _take(lock):
            return folder, lock
        # Another process removed the folder first.
        os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    for path in parent.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                if _take(lock):
                    shutil.rmtree(path.parent, ignore_errors=True)
            finally:
                os.close(lock)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
