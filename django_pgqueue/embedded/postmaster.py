"""Find the server that runs on a data directory: postmaster.pid names it, and the process itself is checked."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Postmaster:
    """Describe a server by its postmaster.pid."""

    pid: int
    data: Path
    socket_dir: Path
    port: int
    ready: bool

    def alive(self) -> bool:
        """Return whether the process with this number is a server on this data directory; numbers are used again."""
        if (PROC / "self").exists():
            return _works_in(PROC / str(self.pid), self.data)
        command = subprocess.run(
            ["ps", "-ww", "-p", str(self.pid), "-o", "command="], capture_output=True, text=True, check=False
        )
        return str(self.data) in command.stdout

    def started_as(self, cluster_name: str) -> bool:
        """Return whether its command line has this cluster's mark; a server that was started with pg_ctl by hand has
        none."""
        try:
            return f'"cluster_name={cluster_name}"' in (self.data / "postmaster.opts").read_text()
        except FileNotFoundError:
            return False


def read_postmaster(data: Path) -> Postmaster | None:
    """Return the live server on a data directory, or None."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid = int(lines[0])
    except (FileNotFoundError, IndexError, ValueError):  # none, or this moment being written
        return None
    port, socket_dir, status = (lines[index].strip() if len(lines) > index else "" for index in (3, 4, 7))
    found = Postmaster(pid, data, Path(socket_dir), int(port or 0), status == "ready")
    return found if found.alive() else None


def clear_leftovers(data: Path, socket_dir: Path, port: int, *, timeout_seconds: float = 15.0) -> None:
    """Remove the files of a killed server, once the last of its processes is gone.

    ``timeout_seconds``: how long to wait for its processes. PostgreSQL removes the files itself unless an unrelated
    process or a zombie has the number in postmaster.pid.
    """
    if not (data / "postmaster.pid").exists() or not (PROC / "self").exists():
        return
    deadline = time.monotonic() + timeout_seconds
    while any(_works_in(process, data) for process in PROC.glob("[0-9]*")):
        if time.monotonic() > deadline:
            return  # PostgreSQL refuses to start, and says which process it is
        time.sleep(0.05)
    for leftover in (data / "postmaster.pid", socket_dir / f".s.PGSQL.{port}", socket_dir / f".s.PGSQL.{port}.lock"):
        leftover.unlink(missing_ok=True)


def _works_in(process: Path, data: Path) -> bool:
    # Every process of a server has the data directory as its working directory; a zombie has none.
    try:
        return os.path.samefile(process / "cwd", data)
    except OSError:
        return False
