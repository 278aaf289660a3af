"""A standalone cluster on loopback, from what is in the package pyspark: a master and its workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from django_pgqueue.spark.java import find_java

PATIENCE_SECONDS = 120
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "CoarseGrainedExecutorBackend"
LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_OUT
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """``url`` is for `--master`; ``folder`` has the logs and the work of the executors."""

    url: str
    folder: Path
    workers: list[subprocess.Popen[bytes]]

    def executors(self) -> list[int]:
        """The processes of the executors that run now."""
        return [pid for worker in self.workers for pid in _children(worker.pid) if EXECUTOR in _command(pid)]


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2, *, cores: int = 1, memory: str = "768m") -> Iterator[Cluster]:
    """A master, and workers that can run an executor each, on loopback addresses of their own: Spark runs a speculative
    task on another host only. All processes are gone at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.properties").write_text(LOGGING)
    with ExitStack() as stack:
        log = folder / "master.log"
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = stack.enter_context(_daemon(folder, log, MASTER, *arguments))
        url = _wait_for(r"Starting Spark master at (spark://\S+)", log, master)
        started = []
        for number in range(workers):
            log = folder / f"worker-{number}.log"
            work = str(folder / f"work-{number}")
            host = f"127.0.0.{number + 1}"
            arguments = ["--host", host, "--port", "0", "--webui-port", "0", "--cores", str(cores), "--memory", memory]
            arguments += ["--work-dir", work, url]
            started.append((stack.enter_context(_daemon(folder, log, WORKER, *arguments, host=host)), log))
        for worker, log in started:
            _wait_for(r"(Successfully registered with master)", log, worker)
        yield Cluster(url, folder, [worker for worker, _ in started])


@contextmanager
def _daemon(
    folder: Path, log: Path, name: str, *arguments: str, host: str = "127.0.0.1"
) -> Iterator[subprocess.Popen[bytes]]:
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        **find_java().environment,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={folder}/log4j2.properties -XX:TieredStopAtLevel=1",
        "PYSPARK_PYTHON": sys.executable,
    }
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [str(home / "bin" / "spark-class"), name, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield process
        finally:
            # A worker that is asked ends its executors too.
            process.terminate()
            try:
                process.wait(PATIENCE_SECONDS)
            finally:
                process.kill()


def _wait_for(pattern: str, log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{log.name} never said {pattern!r}:\n{log.read_text(errors='replace')[-3000:]}")


def _children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except FileNotFoundError:
        return ""
