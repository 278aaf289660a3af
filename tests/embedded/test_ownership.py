"""It never touches a server, data or a process that it did not start."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from django_pgqueue.embedded import Cluster, EmbeddedError, find_binaries
from django_pgqueue.embedded.account import account_for
from django_pgqueue.embedded.postmaster import Postmaster
from tests.embedded.conftest import query
from tests.support.processes import process_runs

Make = Callable[..., Cluster]


@pytest.fixture
def pg_ctl(folder: Path) -> Iterator[Callable[..., int]]:
    """pg_ctl as an operator would type it: `pg_ctl(data, "start")` returns the server's number."""
    started: list[Path] = []

    def run(data: Path, verb: str, *options: str) -> int:
        account = account_for(data.parent, data)
        extra = ["-l", str(data / "log"), *options] if verb == "start" else ["-m", "immediate"]
        done = account.run([find_binaries().program("pg_ctl"), verb, "-w", "-s", "-D", data, *extra])
        assert done.returncode == 0, done.stderr
        if verb == "stop":
            return 0
        started.append(data)
        return int((data / "postmaster.pid").read_text().splitlines()[0])

    yield run
    for data in started:
        if (data / "postmaster.pid").exists():
            run(data, "stop")


def options_for(data: Path) -> tuple[str, str]:
    return "-o", f"-c listen_addresses= -c unix_socket_directories={data}"


def test_data_that_another_program_made_is_refused(make: Make, folder: Path, pg_ctl: Callable[..., int]):
    account = account_for(folder, folder / "data")
    (folder / "data").mkdir(mode=0o700)
    os.chown(folder / "data", account.uid, account.gid)
    account.run([find_binaries().program("initdb"), "-D", folder / "data", "-N"])
    pid = pg_ctl(folder / "data", "start", *options_for(folder / "data"))
    for verb in ("start", "stop", "destroy", "status"):
        with pytest.raises(EmbeddedError, match="was not made by the embedded server"):
            getattr(make(), verb)()
    assert process_runs(pid)


def test_a_server_that_another_program_started_on_our_data_is_refused(
    make: Make, folder: Path, pg_ctl: Callable[..., int]
):
    make().start()
    make().stop()
    pid = pg_ctl(folder / "data", "start", *options_for(folder / "data"))
    for verb in ("start", "stop", "destroy"):
        with pytest.raises(EmbeddedError, match=rf"server \(pid {pid}\) .* was started by other means"):
            getattr(make(), verb)()
    assert process_runs(pid)
    pg_ctl(folder / "data", "stop")
    assert make().start() is True


def test_a_copy_of_the_folder_does_not_stop_the_original(make: Make, folder: Path):
    original = make(folder / "original")
    original.start()
    account = account_for(folder / "original", folder / "original" / "data")
    shutil.copytree(folder / "original", folder / "copy", ignore=shutil.ignore_patterns(".s.PGSQL*"))
    for path, _, files in os.walk(folder / "copy" / "data"):
        for name in (path, *(os.path.join(path, file) for file in files)):
            os.chown(name, account.uid, account.gid)

    copy = make(folder / "copy")
    assert copy.status().state == "stopped"
    assert copy.stop() is False
    assert copy.start() is True  # its postmaster.pid, that of the original, is not in the way
    assert query(original, "SHOW data_directory") == str(folder / "original" / "data")
    assert query(copy, "SHOW data_directory") == str(folder / "copy" / "data")
    copy.destroy()
    assert query(original, "SELECT 1") == 1


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
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

    assert cluster.status().state == "stopped"
    assert cluster.stop() is False
    assert cluster.start() is True
    assert query(cluster, "SELECT n FROM kept") == 42
    cluster.destroy()
    assert bystander.poll() is None


def test_a_killed_server_is_started_again_with_all_that_was_committed(make: Make, folder: Path):
    cluster = make()
    cluster.start()
    query(cluster, "CREATE TABLE kept AS SELECT 42 AS n")
    pid = cluster.status().pid
    os.kill(pid, signal.SIGKILL)
    while process_runs(pid):
        time.sleep(0.001)
    assert cluster.start() is True  # at once: it waits for what the dead server's processes still hold
    assert cluster.status().pid != pid
    assert query(cluster, "SELECT n FROM kept") == 42


def test_a_process_of_a_killed_server_that_still_lives_is_waited_for(make: Make, folder: Path):
    cluster = make()
    cluster.start()
    postmaster = cluster.status().pid
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


def test_an_empty_or_torn_postmaster_pid_is_nothing(make: Make, folder: Path):
    cluster = make()
    cluster.start()
    cluster.stop()
    for content in ("", "not a number\n"):
        (folder / "data" / "postmaster.pid").write_text(content)
        assert cluster.status().state == "stopped"
        assert cluster.stop() is False
        assert cluster.start() is True
        assert cluster.stop() is True


def test_without_proc_the_command_line_tells_a_server_from_others(
    make: Make, folder: Path, bystander: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("django_pgqueue.embedded.postmaster.PROC", folder / "no-proc")
    cluster = make()
    cluster.start()
    assert cluster.start() is False
    data = folder / "data"
    assert not Postmaster(bystander.pid, data, data, 5432, True).alive()
    assert not Postmaster(2**22 - 1, data, data, 5432, True).alive()
    assert cluster.stop() is True


def kill_and_wait(cluster: Cluster) -> None:
    pid = cluster.status().pid
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
