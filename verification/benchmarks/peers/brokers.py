"""Message brokers for the queues that need one: each run has its own, on loopback, in a folder that goes with it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

START_SECONDS = 60.0
STOP_SECONDS = 10.0
LOOK_EVERY = 0.05  # seconds
LOOPBACK = "127.0.0.1"
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
# Each write goes to the log at once, which is synced once a second: a crash of the machine loses a second.
REDIS = ("--save", "", "--appendonly", "yes", "--appendfsync", "everysec")


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that runs: the id of its server's process, its address, and the folder of its own."""

    pid: int
    url: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Kind:
    """How a broker is started, with the program that it needs, and the Debian package that has this program."""

    program: str
    package: str
    start: Callable[[], AbstractContextManager[Broker]]

    def missing(self) -> str | None:
        if Path(self.program).exists() or shutil.which(self.program):
            return None
        return f"{self.program} not found: apt-get install {self.package}"


@contextmanager
def redis() -> Iterator[Broker]:
    """Start Redis with a log of its writes."""
    with _folder("redis") as folder, ExitStack() as stack:
        port = free_port()
        where = ("--bind", LOOPBACK, "--port", str(port), "--dir", str(folder), "--daemonize", "no")
        server = _start(stack, folder, ("redis-server", *where, *REDIS), {})
        _wait(server, folder, lambda: _answers(port, b"PING\r\n", b"+PONG"))
        yield Broker(server.pid, f"redis://{LOOPBACK}:{port}/0", folder)


@contextmanager
def rabbitmq() -> Iterator[Broker]:
    """Start RabbitMQ with its defaults, and the name server that its node needs."""
    with _folder("rabbitmq") as folder, ExitStack() as stack:
        port, names, peers = free_port(), free_port(), free_port()
        _start(stack, folder, ("epmd", "-address", LOOPBACK, "-port", str(names)), {})
        server = _start(stack, folder, (str(RABBITMQ),), {
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_EPMD_PORT": str(names),
            "RABBITMQ_NODENAME": "benchmark@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(peers),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
        })  # fmt: skip
        _wait(server, folder, lambda: _answers(port, b"AMQP\x00\x00\x09\x01", b"\x01"))
        # The script waits for the virtual machine, which it started.
        machine = int(Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()[0])
        stack.callback(_end, machine)
        yield Broker(machine, f"amqp://guest:guest@{LOOPBACK}:{port}//", folder)


REDIS_KIND = Kind("redis-server", "redis-server", redis)
RABBITMQ_KIND = Kind(str(RABBITMQ), "rabbitmq-server", rabbitmq)


def free_port() -> int:
    """Return a port of loopback that nothing uses."""
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        port: int = found.getsockname()[1]
    return port


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _start(
    stack: ExitStack, folder: Path, command: tuple[str, ...], variables: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    log: IO[bytes] = stack.enter_context((folder / "output").open("ab"))
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
    )
    stack.callback(_stop, process)
    return process


def _wait(process: subprocess.Popen[bytes], folder: Path, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} did not start:\n{(folder / 'output').read_text()[-3000:]}")
        time.sleep(LOOK_EVERY)


def _answers(port: int, question: bytes, answer: bytes) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1) as connection:
            connection.sendall(question)
            return connection.recv(100).startswith(answer)
    except OSError:
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end(pid: int) -> None:
    """End a process that a script of ours waits for; its data goes with the folder, so it need not say goodbye."""
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return
