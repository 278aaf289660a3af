"""Probes, a heartbeat file and systemd, and what a worker reports to them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_pgqueue import probe
from django_pgqueue.worker.vitals import Health, Vitals
from tests.support.paths import REPOSITORY
from tests.support.sessions import Connect
from tests.support.waiting import PATIENCE_SECONDS, eventually
from tests.worker.conftest import Process, script

Spawn = Callable[..., Process]


def ask(port: int, path: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except ConnectionError:
        return 0, {}
    finally:
        connection.close()


@pytest.mark.parametrize("processes", [0, 2])
def test_a_worker_that_works_is_live_and_ready(spawn: Spawn, port: int, processes: int) -> None:
    script(["await", "never"])
    spawn("--probe-port", f"127.0.0.1:{port}", processes=processes)
    eventually(lambda: ask(port, "/livez")[0] == 200)
    eventually(lambda: ask(port, "/readyz")[0] == 200)
    eventually(lambda: sum(worker["running"] for worker in ask(port, "/readyz")[1]["workers"]) == 1)
    answer = ask(port, "/readyz")[1]
    assert answer["state"] == "running"
    assert answer["problems"] == []
    assert len(answer["workers"]) == max(1, processes)
    assert ask(port, "/")[0] == 404


def test_a_worker_without_its_processes_is_live_but_not_ready(
    environment: dict[str, str], queue: None, port: int, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    worker = Process({**environment, "BROKEN": str(broken)}, "--probe-port", str(port), processes=1)
    try:
        eventually(lambda: ask(port, "/readyz")[0] == 200)
        broken.touch()
        os.kill(worker.children[0], signal.SIGKILL)
        eventually(lambda: ask(port, "/readyz")[0] == 503)
        assert ask(port, "/readyz")[1]["problems"] == ["1 of 1 processes not ready"]
        assert ask(port, "/livez")[0] == 200
        broken.unlink()
        eventually(lambda: ask(port, "/readyz")[0] == 200)
    finally:
        worker.close()


def test_a_worker_that_the_database_keeps_waiting_is_not_ready(spawn: Spawn, port: int, connect: Connect) -> None:
    spawn("--probe-port", str(port), processes=1)
    eventually(lambda: ask(port, "/readyz")[0] == 200)
    session = connect()
    session.execute("LOCK TABLE pgqueue_worker IN ACCESS EXCLUSIVE MODE")
    eventually(lambda: ask(port, "/readyz")[0] == 503)
    assert ask(port, "/readyz")[1]["problems"] == ["the database does not answer"]
    assert ask(port, "/livez")[0] == 200
    session.rollback()
    eventually(lambda: ask(port, "/readyz")[0] == 200)


def test_a_control_loop_that_hangs_is_not_live(spawn: Spawn, tmp_path: Path) -> None:
    file = tmp_path / "alive"
    worker = spawn("--heartbeat-file", str(file), processes=1)
    eventually(lambda: probe.main([str(file), "--ready"]) == 0)
    worker.signal(signal.SIGSTOP)
    eventually(lambda: probe.main([str(file), "--max-age", "3"]) == 1)
    worker.signal(signal.SIGCONT)
    eventually(lambda: probe.main([str(file), "--max-age", "3"]) == 0)
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert probe.main([str(file)]) == 1


def test_the_probe_needs_neither_django_nor_settings(spawn: Spawn, port: int) -> None:
    spawn("--probe-port", f"127.0.0.1:{port}", processes=1)
    eventually(lambda: ask(port, "/readyz")[0] == 200)
    code = "import sys; from django_pgqueue.probe import main; status = main(); assert 'django' not in sys.modules; "
    command = [sys.executable, "-c", code + "sys.exit(status)", str(port), "--ready"]
    environment = {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ready"] is True


def test_the_probe_says_why_not(port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert probe.main([str(port)]) == 1
    assert "no answer" in capsys.readouterr().out
    assert probe.main([str(tmp_path / "missing")]) == 1
    assert "No such file" in capsys.readouterr().out
    old = tmp_path / "old"
    old.write_text("{}")
    os.utime(old, (time.time() - 60, time.time() - 60))
    assert probe.main([str(old)]) == 1
    assert "60" in capsys.readouterr().out


@pytest.mark.django_db
def test_a_port_that_is_taken_is_said_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(CommandError, match="--probe-port: cannot listen"):
            call_command("runqueueworker", "--probe-port", f"127.0.0.1:{taken.getsockname()[1]}", skip_checks=True)


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(PATIENCE_SECONDS)
        yield receiver


def test_a_control_loop_that_does_not_come_round_is_not_live(port: int) -> None:
    now = 100.0
    vitals = Vitals(address=("127.0.0.1", port), clock=lambda: now)
    vitals.start(lambda: Health("running"))
    try:
        now = 110.0
        assert ask(port, "/livez") == (200, {"live": True, "seconds_since_beat": 10.0})
        now = 110.1
        assert ask(port, "/livez")[0] == 503
        vitals.beat()
        assert ask(port, "/livez")[0] == 200
    finally:
        vitals.stop()


@pytest.mark.parametrize("processes", [0, 1])
def test_systemd_is_notified_of_what_it_waits_for(
    environment: dict[str, str], queue: None, systemd: socket.socket, processes: int
) -> None:
    notified = {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "3000000"}
    worker = Process({**environment, **notified}, processes=processes)
    try:
        heard = hear(systemd, "READY=1")
        assert any(line.startswith("STATUS=") for line in heard)
        hear(systemd, "WATCHDOG=1")
        hear(systemd, "WATCHDOG=1")
        if processes:
            worker.signal(signal.SIGHUP)
            hear(systemd, "RELOADING=1")
            hear(systemd, "READY=1")
        worker.signal(signal.SIGTERM)
        hear(systemd, "STOPPING=1")
        assert worker.wait() == 0
    finally:
        worker.close()


def test_a_reload_is_not_over_before_all_processes_are_replaced(
    systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", systemd.getsockname())
    now = 100.0
    vitals = Vitals(clock=lambda: now)
    vitals.start(lambda: Health("running"))
    vitals.reloading()
    for changing in (True, True, False, False):
        now += 1
        vitals.beat(changing=changing)
    systemd.setblocking(False)
    notified = [systemd.recv(4096).decode().splitlines() for _ in range(6)]
    assert ["READY=1" in lines for lines in notified] == [True, False, False, False, True, False]


def hear(receiver: socket.socket, awaited: str) -> list[str]:
    """All lines until the one that is awaited."""
    lines: list[str] = []
    while awaited not in lines:
        lines += receiver.recv(4096).decode().splitlines()
    return lines
