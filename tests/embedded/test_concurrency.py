from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_pgqueue.embedded import Cluster, home
from django_pgqueue.embedded.home import cluster_lock
from tests.embedded.conftest import query

Make = Callable[..., Cluster]
InPython = Callable[..., "subprocess.Popen[str]"]

START = "input(); cluster = Cluster(argv[1], settings=THROWAWAY); print(cluster.start(), cluster.status().pid)"


def let_all_go(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Lets all go at the same time and returns what they print."""
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate()[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return outputs


def test_of_four_processes_that_start_it_one_does_and_all_get_the_same_server(in_python: InPython, folder: Path):
    answers = [line.split() for line in let_all_go([in_python(START, folder) for _ in range(4)])]
    assert sorted(started for started, _ in answers) == ["False", "False", "False", "True"]
    assert len({pid for _, pid in answers}) == 1
    assert query(Cluster(folder), "SELECT 1") == 1


def test_a_database_is_created_once_by_four_processes(in_python: InPython, folder: Path):
    statements = (
        "input(); cluster = Cluster(argv[1], settings=THROWAWAY); cluster.start(); cluster.ensure_database('flights')"
    )
    let_all_go([in_python(statements, folder) for _ in range(4)])
    assert query(Cluster(folder), "SELECT current_database()", "flights") == "flights"


def test_starts_and_stops_and_destroys_take_turns(in_python: InPython, folder: Path):
    verbs = ["start", "stop", "start", "destroy"]
    script = "input(); cluster = Cluster(argv[1], settings=THROWAWAY)\nfor _ in range(4): getattr(cluster, argv[2])()"
    let_all_go([in_python(script, folder, verb) for verb in verbs])
    cluster = Cluster(folder)
    cluster.start()
    assert query(cluster, "SELECT 1") == 1


def test_a_process_killed_while_it_holds_the_lock_blocks_no_other(in_python: InPython, make: Make, folder: Path):
    script = "from django_pgqueue.embedded.home import cluster_lock\nfrom pathlib import Path\nimport time\n"
    script += "with cluster_lock(Path(argv[1])): print('held', flush=True); time.sleep(600)"
    holder = in_python(script, folder)
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    assert make().start() is True


def test_a_process_that_waited_for_a_lock_that_destroy_removed_waits_for_the_new_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    opened, entered = threading.Event(), threading.Event()

    def wait_and_enter() -> None:
        with cluster_lock(folder):
            entered.set()

    removed, new = cluster_lock(folder), cluster_lock(folder)
    removed.__enter__()
    wait = home._lock_until

    def wait_with_the_file(*given: Any) -> None:
        opened.set()
        wait(*given)

    monkeypatch.setattr(home, "_lock_until", wait_with_the_file)
    waiter = threading.Thread(target=wait_and_enter)
    waiter.start()
    assert opened.wait(280)
    (folder / "lock").unlink()
    new.__enter__()
    removed.__exit__(None, None, None)
    assert not entered.wait(0.5)
    new.__exit__(None, None, None)
    assert entered.wait(280)
    waiter.join()
