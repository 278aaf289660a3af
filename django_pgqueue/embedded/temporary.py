"""Run a cluster that is removed afterwards, for tests."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from django_pgqueue.embedded.binaries import EmbeddedError
from django_pgqueue.embedded.cluster import Cluster, open_private, take

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
    *, binaries: str = "auto", settings: Mapping[str, str] | None = None, start: bool = True
) -> Iterator[Cluster]:
    """Run a cluster in a new temporary folder; stop and remove it at the end.

    ``binaries``, ``settings``: as for :class:`Cluster`. ``start``: with False only its `url` is known; call its
    `start()`. It runs without fsync, so a crash of the machine loses it.
    """
    _remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    if os.geteuid() == 0:
        folder.chmod(0o711)  # the server's account must get through; its data inside is closed
    owner = _hold(folder)
    cluster = Cluster(folder, binaries=binaries, settings={**THROWAWAY, **(settings or {})})
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
    descriptor = open_private(folder / "owner.partial")
    take(descriptor)
    (folder / "owner.partial").rename(folder / "owner")
    return descriptor


def _remove_abandoned() -> None:
    """Remove the clusters of killed processes. A held lock, unlike a process number, cannot be mistaken."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError, EmbeddedError):  # just being removed by another process
            if folder.lstat().st_uid != os.geteuid():
                continue
            descriptor = os.open(folder / "owner", os.O_RDWR | os.O_NOFOLLOW)
            try:
                if take(descriptor):
                    Cluster(folder).destroy()
                    shutil.rmtree(folder)
            finally:
                os.close(descriptor)
