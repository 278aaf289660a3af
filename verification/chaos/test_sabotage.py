"""Defects that are put into the queue are noticed: in a run for changes, some of those in changed functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suite.changes import changed_functions
from verification.chaos.sabotage.defects import DEFECTS, Defect
from verification.chaos.sabotage.run import catch
from verification.chaos.server import Server

CHANGED = changed_functions()
CHOSEN = DEFECTS if CHANGED is None else [defect for defect in DEFECTS if defect.is_in(CHANGED)][:3]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("defect", CHOSEN, ids=lambda defect: defect.name)
def test_a_defect_is_noticed_within_a_minute(server: Server, tmp_path: Path, defect: Defect) -> None:
    found = catch(server, tmp_path, defect, seed=1)
    assert found.by & defect.breaks, f"violated: {sorted(found.by) or 'nothing'}, after {found.runs} runs"


def test_each_defect_can_still_be_put_in(server: Server) -> None:
    server.make_database("sabotage")
    for defect in DEFECTS:
        with server.connect("sabotage") as session:
            session.execute("BEGIN")
            defect.install(session)
            session.execute("ROLLBACK")


def test_a_guard_that_is_not_there_any_more_is_said(server: Server) -> None:
    server.make_database("sabotage")
    gone = Defect("gone", "complete", "no such text", "", frozenset())
    with server.connect("sabotage") as session, pytest.raises(ValueError, match="gone: complete has no 'no such text'"):
        gone.install(session)
