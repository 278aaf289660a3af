"""The memory of a process and all below it, where what they share is counted once (PSS), and their processor time."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from pathlib import Path

EVERY = 0.5  # seconds


class Peak:
    """Watches a process and its descendants; ``bytes``: the most that they had together.

    ``cpu_seconds``: of the processor, up to the last look at each. A busy machine changes them less than the clock's.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.bytes = 0
        self._ticks: dict[int, int] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def cpu_seconds(self) -> float:
        return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(EVERY):
            family = _family(self.pid)
            self.bytes = max(self.bytes, sum(map(_pss, family)))
            self._ticks |= {pid: ticks for pid in family if (ticks := _ticks(pid))}


def _family(pid: int) -> set[int]:
    children = defaultdict(set)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            children[int(stat.read_text().rpartition(") ")[2].split()[1])].add(int(stat.parent.name))
        except OSError:
            continue
    found, new = set(), {pid}
    while new:
        found |= new
        new = set().union(*(children[parent] for parent in new)) - found
    return found


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _pss(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
