"""`migrate` while the queue is at work."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from verification.chaos.checker import check
from verification.chaos.history import History, Recorder
from verification.chaos.server import Server
from verification.chaos.storm import Storm
from verification.chaos.upgrade.command import start

# Seconds that a dequeue may take meanwhile.
LONGEST_STALL = 1.0


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_an_upgrade_under_load_stalls_no_dequeue_for_a_second(server: Server, tmp_path: Path) -> None:
    url = server.make_database("storm")

    def trouble(driver: Recorder) -> None:
        time.sleep(1)
        for target in ("", "zero", ""):
            driver.info("fault", kind="migration", lasts=5_000_000)
            process = start(url, target)
            output, _ = process.communicate(timeout=60)
            assert process.returncode == 0, output.decode()
            time.sleep(1)

    history = Storm(url, tmp_path, server=server, trouble=trouble).run()
    verdicts = check(history)
    assert {verdict.name: verdict.violations for verdict in verdicts if verdict.violations} == {}
    print(f"longest dequeue: {longest(history):.3f} s")
    assert longest(history) < LONGEST_STALL


def longest(history: History) -> float:
    """Return the longest of the dequeues that were transactions of their own, in seconds."""
    return max(((op.ended or op.began) - op.began) / 1e6 for op in history.of("dequeue") if not op.args["lingers"])
