"""The commands that the page on performance names can be given."""

from __future__ import annotations

import re
import shlex
from typing import cast

from tests.support.markdown import page
from tests.support.paths import REPOSITORY
from verification.benchmarks import __main__ as benchmarks
from verification.benchmarks.cluster import Cluster
from verification.benchmarks.cost.command import arguments as cost
from verification.benchmarks.peers.command import arguments as peers
from verification.benchmarks.plan import QUICK, Plan
from verification.benchmarks.scale.command import arguments as scale
from verification.benchmarks.spark.command import arguments as spark
from verification.benchmarks.workloads import WORKLOADS

PROGRAM = "python -m verification.benchmarks"
PARSERS = {"peers": peers, "cost": cost, "spark": spark, "scale": scale}
TARGETS = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
TEXT = page("docs/explanation/performance.md")


def commands(text: str) -> list[str]:
    """Return the commands in code spans, and those in a column "Command" of a table, without the program's name."""
    spans = re.findall(r"`([^`]+)`", text)
    found = [" ".join(span.split()) for span in spans if span.startswith(("python -m", "make "))]
    for table in TABLE.findall(text):
        head, _, *rows = (line.strip("|").split("|") for line in table.splitlines())
        if "Command" in (names := [name.strip() for name in head]):
            cells = (row[names.index("Command")] for row in rows)
            found += [f"{PROGRAM} {span}" for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
    return found


def check(command: str) -> None:
    """Raise if the program does not know a workload or an option of the command, or if it would measure nothing."""
    given = shlex.split(command)
    if given[0] == "make":
        unknown = {target for target in given[1:] if "=" not in target} - TARGETS
        assert not unknown, f"there is no make {' '.join(unknown)}"
        return
    assert command.startswith(PROGRAM), command
    given = given[3:]
    if given[:1] and given[0] in PARSERS:
        PARSERS[given[0]](given[1:])
        return
    chosen = benchmarks.arguments(given)
    if chosen.only:
        plan = Plan(cast(Cluster, None), 1, 1, 1_000, QUICK)
        contests = [contest.only(chosen.only) for name in chosen.names for contest in WORKLOADS[name](plan)]
        assert any(contests), f"no contestant of {command}"


def test_each_command_of_the_page_can_be_given() -> None:
    given = set(commands(TEXT))
    assert len(given) > 15
    for command in given:
        try:
            check(command)
        except (SystemExit, KeyError) as error:
            raise AssertionError(command) from error
