from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from django_pgqueue.embedded import Cluster
from django_pgqueue.embedded import cluster as module
from tests.embedded.conftest import query

Make = Callable[..., Cluster]
InPython = Callable[..., "subprocess.Popen[str]"]

START = "input(); cluster = Cluster(argv[1], settings=THROWAWAY); print(cluster.start(), cluster.pid)"


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


def test_a_process_killed_while_it_has_its_turn_blocks_no_other(in_python: InPython, make: Make, folder: Path):
    holder = in_python("with Cluster(argv[1])._turn(): print('held', flush=True); input()", folder)
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    assert make().start() is True


def test_a_lock_on_a_file_that_destroy_removed_meanwhile_is_no_turn(
    make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    take, removed = module.take, []

    def take_removed(descriptor: int) -> bool:
        if not removed:
            removed.append((folder / "lock").unlink())
        return take(descriptor)

    monkeypatch.setattr(module, "take", take_removed)
    with make()._turn() as turn:
        assert os.path.samestat(os.fstat(turn), (folder / "lock").stat())
