"""The real queue behaves as its model (verification/formal) allows, and a defective one does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from verification.chaos.sabotage.defects import DEFECTS, Defect
from verification.chaos.server import Server
from verification.chaos.storm import Storm
from verification.formal.follow import follow

# Those that change what is written to the tables about a lease; the others are for the checker.
TOLD_BY_TABLES = {
    "complete takes any token",
    "defer takes any token",
    "tokens are those of the worker, not of the lease",
    "an attempt is not counted at the dequeue",
    "the sweep does not look at the clock",
    "leased messages are given away again",
    "one attempt too many",
    "complete forgets the archive",
    "complete archives twice",
    "leases are not counted",
}
RUNS = 3


@pytest.mark.timeout(600)
def test_a_short_storm_is_a_behaviour_of_the_model(server: Server, tmp_path: Path) -> None:
    followed = follow(Storm(server.make_database("storm"), tmp_path, seconds=0.5).run())
    assert followed.refused == []
    assert followed.shapes >= 5
    assert followed.windows >= 2


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "defect", [defect for defect in DEFECTS if defect.name in TOLD_BY_TABLES], ids=lambda defect: defect.name
)
def test_the_run_of_a_defective_queue_is_refused(server: Server, tmp_path: Path, defect: Defect) -> None:
    for seed in range(RUNS):
        url = server.make_database("defective")
        with server.connect("defective") as session:
            defect.install(session)
        storm = Storm(url, tmp_path / str(seed), seed, options=dict(defect.options))
        if follow(storm.run()).refused:
            return
    pytest.fail(f"{RUNS} runs were behaviours of the model")
