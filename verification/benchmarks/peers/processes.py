"""Start the programs of a contestant, read what they marked, and leave nothing running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from verification.benchmarks.machine import TICKS

from .environments import PROGRAMS, clean
from .programs.common import Plan
from .roster import Peer, Settings

GRACE = 20.0  # seconds between SIGTERM and SIGKILL
LOOK_EVERY = 0.05  # seconds

Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Mark:
    key: int
    pid: int
    at: float  # seconds, CLOCK_MONOTONIC


@dataclass(slots=True)
class Started:
    """A program that runs; `log` is what it wrote."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]
    family: set[Identity] = field(default_factory=set)

    def __str__(self) -> str:
        args = self.process.args
        assert isinstance(args, list | tuple)
        return " ".join(map(str, args))

    def check(self) -> None:
        if self.process.poll() is not None:
            raise RuntimeError(f"{self} ended with {self.process.returncode}:\n{self.tail()}")

    def tail(self) -> str:
        self.log.seek(0)
        return self.log.read()[-3000:].decode(errors="replace")

    def wait(self, timeout: float) -> None:
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{self} took longer than {timeout:.0f} s:\n{self.tail()}") from None
        if code:
            raise RuntimeError(f"{self} failed with {code}:\n{self.tail()}")

    def cpu_seconds(self) -> float:
        """Return the CPU time of this process and its descendants that live."""
        spent = 0
        for pid in (self.process.pid, *(child for child, _ in descendants(self.process.pid))):
            with suppress(OSError):
                spent += sum(map(int, _stat(pid)[11:13]))
        return spent / TICKS

    def kill(self) -> None:
        """SIGKILL to this process alone; its children are remembered, to be ended later."""
        self.family |= descendants(self.process.pid)
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.family |= descendants(self.process.pid)
            self.process.terminate()
            try:
                self.process.wait(GRACE)
            except subprocess.TimeoutExpired:
                self.kill()
        for process in self.family:
            kill(process)
        self.log.close()


@dataclass(frozen=True, slots=True)
class Bench:
    """One run of one contestant on its database."""

    peer: Peer
    url: str
    marks_file: Path
    stack: ExitStack
    counts: Path | None = None

    def start(self, arguments: tuple[str, ...], **variables: str) -> Started:
        log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        paths = {"MARKS": str(self.marks_file), **({"COUNTS": str(self.counts)} if self.counts else {})}
        process = subprocess.Popen(
            [self.peer.environment.interpreter, *arguments],
            env=clean(self.peer.environment, {"DATABASE_URL": self.url, **paths, **variables}),
            cwd=PROGRAMS,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        started = Started(process, log)
        self.stack.callback(started.stop)
        return started

    def program(self, verb: str, argument: str = "0", timeout: float = 600) -> None:
        self.start((*self.peer.program, verb, argument)).wait(timeout)

    def producer(self, plan: Plan) -> Started:
        return self.start((*self.peer.program, "produce", json.dumps(asdict(plan))))

    def workers(self, settings: Settings) -> list[Started]:
        arguments = (*self.peer.worker, *settings.arguments)
        return [self.start(arguments, **dict(settings.variables)) for _ in range(settings.processes)]

    def marks(self) -> dict[str, list[Mark]]:
        found = defaultdict(list)
        for line in self.marks_file.read_text().splitlines():
            event, key, pid, at = line.split()
            found[event].append(Mark(int(key), int(pid), int(at) / 1e9))
        return found

    def forget(self) -> None:
        os.truncate(self.marks_file, 0)


@contextmanager
def bench(peer: Peer, url: str, counts: Path | None = None) -> Iterator[Bench]:
    """The programs of a contestant: `url` is its database or broker, `counts` the folder where they count."""
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="marks-"))
        yield Bench(peer, url, Path(file.name), stack, counts)


def wait_for(condition: Callable[[], bool], patience: float, alive: list[Started]) -> bool:
    """Whether it came true within `patience` seconds; raises when a worker has died meanwhile."""
    deadline = time.monotonic() + patience
    while not condition():
        for started in alive:
            started.check()
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_EVERY)
    return True


def descendants(pid: int) -> set[Identity]:
    found = set()
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found |= {identity(child), *descendants(child)}
    return found


def identity(pid: int) -> Identity:
    """Return id and start time: the id alone may be another process's by now. Raises OSError when it has ended."""
    return pid, int(_stat(pid)[19])


def _stat(pid: int) -> list[str]:
    """The fields after the name, which may hold blanks."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()


def kill(process: Identity) -> None:
    with suppress(OSError):
        if identity(process[0]) == process:
            os.kill(process[0], signal.SIGKILL)
