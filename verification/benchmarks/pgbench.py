"""pgbench as the client: it costs little itself, so that the server's work shows."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .cluster import Cluster


@dataclass(slots=True)
class Clients:
    """One running pgbench process: a group of equal clients."""

    process: subprocess.Popen[str]
    label: str

    def wait(self) -> Outcome:
        output, errors = self.process.communicate()
        # A client that fails leaves pgbench running with the others: the figure would be wrong and look right.
        if self.process.returncode or "aborted" in errors:
            raise RuntimeError(f"pgbench ({self.label}) failed:\n{errors[-2000:]}")
        return Outcome(
            tps=figure(r"tps = ([\d.]+)", output),
            latency_ms=figure(r"latency average = ([\d.]+)", output),
            windows=tuple(
                Window(float(tps), float(latency))
                for tps, latency in re.findall(r"progress: .*?, ([\d.]+) tps, lat ([\d.]+)", errors)
            ),
            statements=tuple(
                Statement(text, float(latency))
                for latency, text in re.findall(r"^ +(\d+\.\d+) +\d+ +([^\\\s].*)$", output, re.MULTILINE)
            ),
        )

    def check(self) -> None:
        """Still at work, or done without a failure."""
        if self.process.poll():
            self.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate()


@dataclass(frozen=True, slots=True)
class Window:
    tps: float
    latency_ms: float


@dataclass(frozen=True, slots=True)
class Statement:
    text: str
    latency_ms: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """`windows` and `statements` are empty unless they were asked for."""

    tps: float
    latency_ms: float
    windows: tuple[Window, ...]
    statements: tuple[Statement, ...]


def start(
    cluster: Cluster,
    database: str,
    script: Path,
    *,
    clients: int,
    seconds: float,
    rate: int | None = None,
    window: int | None = None,
    statements: bool = False,
    **variables: int | str,
) -> Clients:
    """Start `clients` connections that repeat `script`, at `rate` per second in all if given.

    `window`: report each so many seconds. `statements`: report each statement of the script.
    """
    command = [str(cluster.pgbench), "-n", "-M", "prepared", "-c", str(clients), "-j", "1"]
    command += ["-T", str(round(seconds)), "-f", str(script)]
    for name, value in variables.items():
        command += ["-D", f"{name}={value}"]
    if rate is not None:
        command += ["-R", str(rate)]
    if window is not None:
        command += ["-P", str(window)]
    if statements:
        command += ["-r"]
    process = subprocess.Popen(
        [*command, cluster.url(database)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return Clients(process, f"{database}: {script.name}")


def figure(pattern: str, output: str) -> float:
    """Return the number that pgbench prints at this place."""
    found = re.search(pattern, output)
    if found is None:
        raise RuntimeError(f"pgbench does not print {pattern!r}:\n{output[-2000:]}")
    return float(found[1])
