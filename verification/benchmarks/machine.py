"""The machine on which the figures were measured, and the other users of its CPU."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
QUIET = 0.25  # cores in use by others
SYNCS = 300


def facts() -> dict[str, str]:
    """The machine, the load it had before we began, and the commit."""
    one, five, _ = os.getloadavg()
    return {
        "machine": f"{os.cpu_count()} cores, {_cpu()}, {_memory_gb()} GB, {platform.system()} {platform.release()}",
        "load average at the start": f"{one:.2f} (1 min), {five:.2f} (5 min)",
        "fdatasync of 8 kB": f"{_sync_microseconds():.0f} µs",
        "commit": _commit(),
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gb() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)


def _sync_microseconds() -> float:
    with tempfile.NamedTemporaryFile() as file:
        began = time.perf_counter()
        for _ in range(SYNCS):
            os.pwrite(file.fileno(), bytes(8192), 0)
            os.fdatasync(file.fileno())
        return (time.perf_counter() - began) / SYNCS * 1e6


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


@dataclass(slots=True)
class Others:
    """The cores that were busy with something that is not ours: other programs, and the kernel's own threads."""

    postmaster: int
    busy: float = 0.0
    ours: float = 0.0
    at: float = 0.0

    def start(self) -> None:
        self.busy, self.ours, self.at = busy_seconds(), _our_seconds(self.postmaster), time.perf_counter()

    def cores(self) -> float:
        """Since `start`; our own clients must have been waited for."""
        busy = busy_seconds() - self.busy
        ours = _our_seconds(self.postmaster) - self.ours
        return max(0.0, (busy - ours) / (time.perf_counter() - self.at))

    def wait_until_quiet(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            self.start()
            time.sleep(0.5)
            if self.cores() < QUIET:
                return


def busy_seconds() -> float:
    """Return the CPU time of all processes on all cores."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / TICKS


def _our_seconds(postmaster: int) -> float:
    """Ours: this process, the clients that have ended, and the server."""
    return sum(os.times()[:4]) + family_seconds(postmaster)


def family_seconds(parent: int) -> float:
    """CPU time of a server or a worker: itself, its processes that live, and those that have ended."""
    # A process that is reaped between two lines of one reading is in neither: the next reading has it.
    return max(_family_seconds(parent) for _ in range(2))


def _family_seconds(parent: int) -> float:
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" (")
        except OSError:
            continue
        fields = rest.rpartition(") ")[2].split()
        if int(pid) == parent:
            total += sum(map(int, fields[11:15])) / TICKS
        elif int(fields[1]) == parent:
            total += sum(map(int, fields[11:13])) / TICKS
    return total
