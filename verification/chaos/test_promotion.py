"""A standby takes over: a synchronous one loses nothing, an asynchronous one what it had not got, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from verification.chaos.checker import check
from verification.chaos.history import History
from verification.chaos.promotion import promotion


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_synchronous_standby_that_takes_over_has_lost_nothing(tmp_path: Path) -> None:
    played, history = promotion(tmp_path, 1, synchronous=True)
    print(played)
    assert_it_went_on(history)
    verdicts = check(history)
    assert {verdict.name: verdict.violations for verdict in verdicts if verdict.violations} == {}
    assert [verdict.name for verdict in verdicts if not verdict.checked] == []


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_asynchronous_standby_loses_what_it_had_not_got_and_no_more(tmp_path: Path) -> None:
    played, history = promotion(tmp_path, 1, synchronous=False)
    print(played)
    assert_it_went_on(history)
    assert played.lost_messages, "nothing was lost: this says nothing"
    assert played.stale, "no lease was lost: this says nothing"
    assert played.lost[0][0] >= played.since, "the standby had got what is lost"
    verdicts = check(history)
    assert {verdict.name: verdict.violations for verdict in verdicts if verdict.violations} == {}


def assert_it_went_on(history: History) -> None:
    [fault] = history.happened("fault")
    assert sum(row.event == "created" and row.committed > fault.at + 2_000_000 for row in history.rows) > 50
