"""Puts one defect after the other into the queue, and looks whether the checker sees it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from verification.chaos.checker import Verdict, check
from verification.chaos.server import Server
from verification.chaos.storm import Storm

from .defects import Defect

PATIENCE_SECONDS = 60.0  # seconds for each


@dataclass(frozen=True, slots=True)
class Catch:
    """How a defect shows. ``by``: the invariants that it violated; empty: it was not noticed."""

    defect: Defect
    by: frozenset[str]
    seconds: float
    runs: int
    example: str = ""

    @property
    def caught(self) -> bool:
        return bool(self.by & self.defect.breaks)

    def __str__(self) -> str:
        by = ", ".join(sorted(self.by))
        state = f"caught by {by}" if self.caught else f"NOT CAUGHT {by}"
        return f"{self.defect.name:52} {state:28} {self.seconds:5.1f} s, {self.runs} run(s)"


def hunt(server: Server, folder: Path, defects: Iterable[Defect], seed: int = 1) -> Iterator[Catch]:
    for place, defect in enumerate(defects):
        yield catch(server, folder / f"{place:02}", defect, seed)


def catch(server: Server, folder: Path, defect: Defect, seed: int) -> Catch:
    """Runs with one seed after the other until it shows."""
    started = time.monotonic()
    runs = 0
    found: list[Verdict] = []
    while not found and (not runs or time.monotonic() - started < PATIENCE_SECONDS - 15):
        url = server.make_database("sabotage")
        with server.connect("sabotage") as session:
            defect.install(session)
        storm = Storm(url, folder / str(seed + runs), seed + runs, options=dict(defect.options), server=server)
        found = [verdict for verdict in check(storm.run()) if verdict.broken]
        runs += 1
    seconds = time.monotonic() - started
    example = next((verdict.violations[0] for verdict in found if verdict.name in defect.breaks), "")
    return Catch(defect, frozenset(verdict.name for verdict in found), seconds, runs, example)
