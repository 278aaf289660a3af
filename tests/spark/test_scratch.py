from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from django_pgqueue.spark.scratch import scratch

HOLD = """
import sys, pathlib
from django_pgqueue.spark.scratch import scratch
with scratch(pathlib.Path(sys.argv[1])) as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def holder(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that uses a scratch folder until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return process, Path(process.stdout.readline().strip())


def test_the_folder_is_gone_at_the_end(tmp_path: Path):
    with scratch(tmp_path) as folder:
        (folder / "blocks").mkdir()
        (folder / "blocks" / "shuffle").write_text("…")
    assert not list(tmp_path.iterdir())


def test_a_folder_in_use_stays_and_that_of_a_killed_process_goes(tmp_path: Path):
    alive, used = holder(tmp_path)
    dead, _ = holder(tmp_path)
    with alive, dead:
        os.kill(dead.pid, signal.SIGKILL)
        dead.wait(280)
        with scratch(tmp_path) as folder:
            assert set(tmp_path.iterdir()) == {used, folder}
        alive.stdin.close()
        alive.wait(280)
    assert not list(tmp_path.iterdir())


def test_other_folders_of_the_same_name_are_left_alone(tmp_path: Path):
    (tmp_path / "pgqueue-spark-notes").mkdir()
    with scratch(tmp_path):
        pass
    assert (tmp_path / "pgqueue-spark-notes").is_dir()
