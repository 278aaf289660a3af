"""Run a cluster that is removed afterwards, for tests."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from django_pgqueue.embedded.cluster import Cluster
from django_pgqueue.embedded.errors import EmbeddedError

PREFIX = "pgqueue-temporary-"
THROWAWAY = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    "max_connections": "100",
    "max_prepared_transactions": "10",
    "log_line_prefix": "%m [%p] %a ",
}


@contextmanager
def temporary_cluster(
    *,
    binaries: str = "auto",
    settings: Mapping[str, str] | None = None,
    user: str | None = None,
    start: bool = True,
) -> Iterator[Cluster]:
    """Run a cluster in a new temporary folder; stop and remove it at the end.

    ``binaries``, ``settings``, ``user``: as for :class:`Cluster`. ``start``: with False only its `url` is known; call
    its `start()`. It runs without fsync, so a crash of the machine loses it.
    """
    _remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    if os.geteuid() == 0:
        folder.chmod(0o711)  # the server's account must get through; its data inside is closed
    owner = _hold(folder)
    cluster = Cluster(folder, binaries=binaries, settings={**THROWAWAY, **(settings or {})}, user=user)
    try:
        cluster.prepare()
        if start:
            cluster.start()
        yield cluster
    finally:
        try:
            cluster.destroy()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(owner)


def _hold(folder: Path) -> int:
    """Lock the file `owner` until this process ends."""
    unnamed = folder / "owner.partial"
    descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unnamed.rename(folder / "owner")
    return descriptor


def _remove_abandoned() -> None:
    """Remove the clusters of killed processes. A held lock, unlike a process number, cannot be mistaken."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            if folder.lstat().st_uid != os.geteuid():
                continue
            descriptor = os.open(folder / "owner", os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            Cluster(folder).destroy()
            shutil.rmtree(folder)
        except (OSError, EmbeddedError):
            continue  # alive, or just being removed by another process
        finally:
            os.close(descriptor)
