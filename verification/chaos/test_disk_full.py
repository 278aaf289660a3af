"""A disk without room, below the tables and the log of transactions: exact counts when there is room again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from verification.chaos.checker import check
from verification.chaos.disk import may_mount
from verification.chaos.history import Recorder
from verification.chaos.server import Server, private_server
from verification.chaos.storm import Storm

pytestmark = pytest.mark.skipif(not may_mount(), reason="to mount a small disk needs root")
# Segments of the log are removed, not used again: that a new one is needed comes soon.
SMALL = {"wal_recycle": "off", "min_wal_size": "32MB", "max_wal_size": "32MB"}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("panics", [False, True], ids=["statements fail", "the server panics"])
def test_a_full_disk_loses_nothing(tmp_path: Path, panics: bool) -> None:
    with private_server(small_disk=True, **SMALL) as server:
        url = server.make_database("storm")
        storm = Storm(url, tmp_path, server=server, trouble=lambda driver: fill_now_and_then(server, driver, panics))
        history = storm.run()
    verdicts = check(history)
    assert {verdict.name: verdict.violations for verdict in verdicts if verdict.violations} == {}
    said = [info.fields["message"] for info in history.happened("server") if info.fields["sqlstate"] == "53100"]
    assert any("No space left on device" in text for text in said), "the disk was never full"
    assert any("pg_wal" in text for text in said) == panics


def fill_now_and_then(server: Server, driver: Recorder, panics: bool) -> None:
    for _ in range(3):
        time.sleep(1.5)
        driver.info("fault", kind="full disk", lasts=8_000_000)
        server.fill_disk(panics=panics)
        time.sleep(3)
        server.free_disk()
    time.sleep(1)
