"""The clock of the server jumps by hours, ahead and back. Leases and delays jump, too; nothing is lost or doubled."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.faketime import libfaketime
from verification.chaos.checker import check
from verification.chaos.driver.fleet import wrong_clock
from verification.chaos.history import History, Recorder, Row
from verification.chaos.server import Server, private_server
from verification.chaos.storm import Storm

HOUR = 3600
# Hours. The last is late enough for all that was due, or leased, by a clock that was an hour ahead.
JUMPS = (1, 0, -1, 0, 3)
TIMES = ("committed", "at", "leased_at", "expires_at", "was_expires_at", "dequeue_at")
# The others are about moments: a lease ends early when the clock jumps over its end.
HOLD = {"I1", "I2", "I3", "I4", "I6", "I8", "I12", "I14", "I15", "I17"}


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Path]]:
    """A server, and the file that says by how much its clock is wrong."""
    library = libfaketime()
    if library is None:
        pytest.fail("libfaketime is missing, without which a wrong clock cannot be tested: make tools")
    with private_server() as server:
        server.cluster.stop()
        clock = server.cluster.folder / "clock"
        clock.write_text("+0\n")
        clock.chmod(0o644)
        with monkeypatch.context() as patch:
            for name, value in {**wrong_clock(library, clock), "FAKETIME_NO_CACHE": "1"}.items():
                patch.setenv(name, value)
            server.cluster.start()
        yield server, clock


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_server_whose_clock_jumps_by_hours_loses_and_doubles_nothing(
    jumping: tuple[Server, Path], tmp_path: Path
) -> None:
    server, clock = jumping

    def trouble(driver: Recorder) -> None:
        for hours in JUMPS:
            time.sleep(1.5)
            clock.write_text(f"{hours * HOUR:+}\n")
            driver.info("fault", kind="server clock", hours=hours)
        time.sleep(1)

    history = Storm(server.make_database("storm"), tmp_path, server=server, trouble=trouble).run()
    seen = {round((row.at - time.time() * 1e6) / 1e6 / HOUR) for row in history.rows}
    assert seen >= set(JUMPS), "its clock was not wrong"
    verdicts = check(by_the_true_clock(history))
    assert {each.name: each.violations for each in verdicts if each.violations and each.name in HOLD} == {}
    assert [each.name for each in verdicts if not each.checked and each.name in HOLD] == []
    assert history.run["drained"]


def by_the_true_clock(history: History) -> History:
    history.rows = sorted(map(true, history.rows), key=lambda row: (row.committed, row.xid, row.seq))
    return history


def true(row: Row) -> Row:
    """Each time by itself: the clock may jump between a change and its commit."""
    moved: dict[str, Any] = {name: right(value) for name in TIMES if (value := getattr(row, name)) is not None}
    return row._replace(**moved)


def right(micros: int) -> int:
    """The run is short, and the jumps are long: the hour shows which jump it was."""
    return micros - round((micros / 1e6 - time.time()) / HOUR) * HOUR * 1_000_000
