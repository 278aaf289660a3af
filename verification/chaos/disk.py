"""A file system of its own for a server's data, which can be as full as one likes: a tmpfs. Mounting needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from django_pgqueue.embedded import Cluster

ROOMY = "12g"  # at most; it takes what is in it


@dataclass(frozen=True, slots=True)
class Disk:
    path: Path

    def fill(self, spare: int = 0) -> None:
        """Leave room for ``spare`` more bytes only, or for a few more if a process writes just now."""
        for more in range(100):
            found = os.statvfs(self.path)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            # A file system does not become smaller than what is in it.
            if self._resize(str(used + spare + (1 + more) * found.f_frsize)):
                return
        raise OSError("the disk could not be made small")

    def free(self) -> None:
        assert self._resize(ROOMY)

    def _resize(self, size: str) -> bool:
        return mount("-o", f"remount,size={size}", self.path, check=False)


def may_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None


@contextmanager
def on_small_disk(cluster: Cluster) -> Iterator[Disk]:
    """Move the data of the cluster, which is started again, to a disk of its own. Stopped and unmounted at the end."""
    cluster.stop()
    data = cluster.data
    owner, made = data.stat(), data.with_name("data.made")
    data.rename(made)
    data.mkdir()
    mount("-t", "tmpfs", "-o", f"size={ROOMY},mode=0700,uid={owner.st_uid},gid={owner.st_gid}", "pgqueue-chaos", data)
    try:
        subprocess.run(["cp", "-a", f"{made}/.", f"{data}/"], check=True)
        shutil.rmtree(made)
        cluster.start()
        yield Disk(data)
    finally:
        Disk(data).free()
        cluster.stop()
        subprocess.run(["umount", "--lazy", str(data)], check=True)


def mount(*arguments: str | Path, check: bool = True) -> bool:
    return subprocess.run(["mount", *map(str, arguments)], check=check, capture_output=not check).returncode == 0
