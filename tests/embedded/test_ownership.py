"""It never touches a server, data or a process that it did not start."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from django_pgqueue.embedded import Cluster, EmbeddedError, find_binaries
from django_pgqueue.embedded.binaries import run
from tests.embedded.conftest import query
from tests.support.processes import process_runs

Make = Callable[..., Cluster]


@pytest.fixture
def pg_ctl(folder: Path) -> Iterator[Callable[..., int]]:
    """pg_ctl as an operator would type it: `pg_ctl(data, "start")` returns the server's number."""
    started: list[Path] = []

    def pg_ctl(data: Path, verb: str, *options: str) -> int:
        extra = ["-l", str(data / "log"), *options] if verb == "start" else ["-m", "immediate"]
        command = [find_binaries().program("pg_ctl"), verb, "-w", "-s", "-D", data, *extra]
        done = run(command, Cluster(data.parent)._account())
        assert done.returncode == 0, done.stdout
        if verb == "stop":
            return 0
        started.append(data)
        return int((data / "postmaster.pid").read_text().splitlines()[0])

    yield pg_ctl
    for data in started:
        if (data / "postmaster.pid").exists():
            pg_ctl(data, "stop")


def options_for(data: Path) -> tuple[str, str]:
    return "-o", f"-c listen_addresses= -c unix_socket_directories={data}"


def test_data_that_another_program_made_is_refused(make: Make, folder: Path, pg_ctl: Callable[..., int]):
    account = make()._account()
    (folder / "data").mkdir(mode=0o700)
    if account:
        os.chown(folder / "data", *account)
    run([find_binaries().program("initdb"), "-D", folder / "data", "-N"], account)
    pid = pg_ctl(folder / "data", "start", *options_for(folder / "data"))
    (folder / "lock").touch()
    for verb in ("start", "destroy"):
        with pytest.raises(EmbeddedError, match="was not made by the embedded server"):
            getattr(make(), verb)()
    assert make().stop() is False
    assert process_runs(pid)
    (folder / "lock").unlink()


def test_a_folder_named_data_that_is_no_servers_is_refused(make: Make, folder: Path):
    (folder / "data").mkdir()
    (folder / "data" / "flights.csv").touch()
    (folder / "lock").touch()
    for verb in ("start", "destroy"):
        with pytest.raises(EmbeddedError, match="was not made by the embedded server"):
            getattr(make(), verb)()
    (folder / "lock").unlink()
    assert (folder / "data" / "flights.csv").exists()


def test_a_server_that_another_program_started_on_our_data_is_refused(
    make: Make, folder: Path, pg_ctl: Callable[..., int]
):
    make().start()
    make().stop()
    pid = pg_ctl(folder / "data", "start", *options_for(folder / "data"))
    for verb in ("start", "destroy"):
        with pytest.raises(EmbeddedError, match=rf"server \(pid {pid}\) .* was started by other means"):
            getattr(make(), verb)()
    assert make().stop() is False
    assert process_runs(pid)
    pg_ctl(folder / "data", "stop")
    assert make().start() is True


def test_a_copy_of_the_folder_does_not_stop_the_original(make: Make, folder: Path):
    original = make(folder / "original")
    original.start()
    subprocess.run(["cp", "-a", folder / "original", folder / "copy"], check=True)

    copy = make(folder / "copy")
    assert copy.pid is None
    assert copy.stop() is False
    assert copy.start() is True  # its postmaster.pid, that of the original, is not in the way
    assert query(original, "SHOW data_directory") == str(folder / "original" / "data")
    assert query(copy, "SHOW data_directory") == str(folder / "copy" / "data")
    copy.destroy()
    assert query(original, "SELECT 1") == 1


@pytest.fixture
def bystander(make: Make) -> Iterator[subprocess.Popen[bytes]]:
    """Another process of the server's user: PostgreSQL takes it for the server when it has the server's number."""
    process = subprocess.Popen(["sleep", "600"], user=(make()._account() or [None])[0])
    yield process
    process.kill()
    process.wait()


def test_a_number_that_is_used_again_is_neither_stopped_nor_believed(
    make: Make, folder: Path, bystander: subprocess.Popen[bytes]
):
    cluster = make()
    cluster.start()
    query(cluster, "CREATE TABLE kept AS SELECT 42 AS n")
    kill_and_wait(cluster)
    stale = (folder / "data" / "postmaster.pid").read_text().splitlines()
    for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        (folder / "data" / name).write_text("\n".join([str(bystander.pid), *stale[1:]]) + "\n")

    assert cluster.pid is None
    assert cluster.stop() is False
    assert cluster.start() is True
    assert query(cluster, "SELECT n FROM kept") == 42
    cluster.destroy()
    assert bystander.poll() is None


def test_a_killed_server_is_started_again_with_all_that_was_committed(make: Make, folder: Path):
    cluster = make()
    cluster.start()
    query(cluster, "CREATE TABLE kept AS SELECT 42 AS n")
    pid = cluster.pid
    os.kill(pid, signal.SIGKILL)
    while process_runs(pid):
        time.sleep(0.001)
    assert cluster.start() is True  # at once: it waits for what the dead server's processes still hold
    assert cluster.pid != pid
    assert query(cluster, "SELECT n FROM kept") == 42


def test_a_process_of_a_killed_server_that_still_lives_is_waited_for(make: Make, folder: Path):
    cluster = make()
    cluster.start()
    postmaster = cluster.pid
    straggler = next(pid for pid in processes_in(folder / "data") if pid != postmaster)
    os.kill(straggler, signal.SIGSTOP)
    os.kill(postmaster, signal.SIGKILL)
    while process_runs(postmaster):
        time.sleep(0.001)
    with ThreadPoolExecutor() as threads:
        started = threads.submit(cluster.start)
        time.sleep(1)
        assert not started.done()
        os.kill(straggler, signal.SIGCONT)
        assert started.result(timeout=280) is True


def kill_and_wait(cluster: Cluster) -> None:
    pid = cluster.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while processes_in(cluster.folder / "data"):
        time.sleep(0.02)


def processes_in(folder: Path) -> list[int]:
    def works_in_it(process: Path) -> bool:
        try:
            return os.path.samefile(process / "cwd", folder)
        except OSError:
            return False

    return sorted(int(process.name) for process in Path("/proc").glob("[0-9]*") if works_in_it(process))
