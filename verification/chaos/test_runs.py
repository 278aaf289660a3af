"""Whole runs: one of the tier `ci` with real worker processes, about five minutes, and short ones without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from verification.chaos.checker import check
from verification.chaos.driver.plan import TIERS
from verification.chaos.driver.report import report
from verification.chaos.driver.run import Run
from verification.chaos.history import load
from verification.chaos.server import Server
from verification.chaos.storm import Storm
from verification.formal.follow import follow

# Another seed: PGQUEUE_CHAOS_SEED=7; another tier: PGQUEUE_CHAOS_TIER=quick. A failure says which they were.
SEED = int(os.environ.get("PGQUEUE_CHAOS_SEED", "1"))
TIER = os.environ.get("PGQUEUE_CHAOS_TIER", "ci")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_a_storm_of_clients_breaks_no_invariant(server: Server, tmp_path: Path, seed: int) -> None:
    history = Storm(server.make_database("storm"), tmp_path, seed, server=server).run()
    verdicts = check(history)
    assert {verdict.name: verdict.violations for verdict in verdicts if verdict.violations} == {}, f"seed {seed}"
    assert [verdict.name for verdict in verdicts if not verdict.checked] == [], "the storm says nothing about these"
    assert follow(history).refused == [], f"seed {seed}"


@pytest.mark.timeout(1500)
def test_faults_of_every_kind_break_no_invariant(server: Server, tmp_path: Path) -> None:
    tier = TIERS[TIER]
    Run(server, tmp_path, tier, SEED).play()
    history = load(tmp_path)
    verdicts = check(history)
    print(report(history, verdicts))
    assert {verdict.name: verdict.violations for verdict in verdicts if verdict.violations} == {}, f"seed {SEED}"
    assert [verdict.name for verdict in verdicts if not verdict.checked] == [], "the run says nothing about these"
    assert history.run["unclean"] == []
    assert len([row for row in history.rows if row.event == "created"]) >= tier.messages
    assert {kind: history.run["faults"].get(kind, 0) for kind in tier.faults} == tier.faults
