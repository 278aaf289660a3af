"""Every test is in one part, every name in the list of parts is that of a test, and the runner says what happened."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import Counter
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import pytest

from tests.suite import __main__ as runner
from tests.suite.parts import (
    COUNTED,
    DAY,
    LONGEST,
    MAIN,
    PARTS,
    QUICK,
    REST,
    SQL,
    chosen_today,
    part_of,
    part_of_the_day,
    within,
)
from tests.support.paths import REPOSITORY

NAMED = [name for part in REST for name in part.tests]


@cache
def functions() -> dict[str, bool]:
    """All tests, by their names without parameters, and whether each is marked slow."""
    found = {}
    for path in sorted(path for root in ("tests", "verification") for path in (REPOSITORY / root).rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                marks = [ast.unparse(decorator) for decorator in node.decorator_list]
                found[f"{path.relative_to(REPOSITORY)}::{node.name}"] = "pytest.mark.slow" in marks
    return found


def test_every_part_has_tests_or_runs_those_of_others_in_another_way():
    parts = Counter(part_of(name, slow=slow) for name, slow in functions().items())
    assert {*parts} == {MAIN, *(part.name for part in REST if not part.commands)}
    assert parts[MAIN] > 2000


def test_a_test_is_named_by_one_part_only():
    assert [name for name, count in Counter(NAMED).items() if count > 1] == []
    inside = [(one, within(one, {*NAMED} - {one})) for one in NAMED]
    same = [one for one, other in inside if other and part_of(one) == part_of(other)]
    assert same == [], "the part that has the folder or the file has these already"


def test_each_name_is_that_of_a_folder_a_file_or_a_test():
    for name in {*NAMED, *QUICK, *COUNTED, *SQL, *LONGEST}:
        path, _, test = name.partition("::")
        assert (REPOSITORY / path).exists(), name
        assert not test or name.partition("[")[0] in functions(), name


def test_a_slow_test_is_not_in_the_main_part():
    assert {part_of(name, slow=True) for name, slow in functions().items() if slow} <= {*PARTS}


def test_the_longest_name_decides():
    whole, one = PARTS["chaos"].tests[0], "verification/chaos/test_runs.py::test_a_storm_of_clients_breaks_no_invariant"
    assert part_of(f"{whole}[7]") == "chaos"
    assert part_of(one, slow=True) == "slow"
    assert part_of(f"{whole}_at_all") == MAIN


def test_each_part_has_its_day():
    days = [date(2026, 11, 23) + timedelta(days=number) for number in range(len(REST))]
    assert {part_of_the_day(day).name for day in days} == {*PARTS}


def test_the_days_choices_cover_everything_after_some_turns(monkeypatch: pytest.MonkeyPatch):
    chosen: list[str] = []
    for turn in range(4):
        monkeypatch.setenv(DAY, str(date(2026, 11, 23) + timedelta(days=turn * len(REST))))
        some = chosen_today("abcdefghijk", 3)
        assert 2 <= len(some) <= 3
        chosen += some
    assert sorted(chosen) == list("abcdefghijk")


SUITE = """
def test_one(): pass
def test_two(): {two}
def test_three(): pass
"""


def outcome(folder: Path, *, box: float | None = None, two: str = "pass") -> runner.Result:
    (folder / "test_suite.py").write_text(SUITE.format(two=two))
    plugins = ("-p", "no:cacheprovider", "-p", "no:django", "-p", "tests.suite.plugin")
    line = ("pytest", *plugins, "-ra", f"--rootdir={folder}", "-c", "/dev/null", str(folder))
    return runner.run("some", (line,), box=box)


def test_the_summary_of_pytest_is_kept(tmp_path: Path):
    result = outcome(tmp_path)
    assert result.verdict == runner.PASSED
    assert re.fullmatch(r"=+ 3 passed in [\d.]+s =+", result.summaries[0])


def test_a_failure_is_a_failure(tmp_path: Path):
    assert outcome(tmp_path, two="assert 0", box=600).verdict == runner.FAILED


def test_a_command_that_fails_is_a_failure_although_the_next_one_passes():
    assert runner.run("some", (("no_such_module",), ("this",))).verdict == runner.FAILED


def test_tests_that_have_not_begun_in_time_are_skipped_and_reported(tmp_path: Path):
    result = outcome(tmp_path, two="assert 0", box=0)
    assert result.verdict == runner.CUT
    assert "3 skipped" in result.summaries[0]


def test_a_run_that_does_not_end_is_interrupted():
    endless = "import time; time.sleep(3600)"
    status, interrupted, _ = runner.follow([sys.executable, "-c", endless], dict(os.environ), limit=2)
    assert interrupted
    assert status != 0


def test_the_last_lines_are_the_summaries(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(runner, "run", lambda name, lines, **box: runner.Result(name, summaries=[f"= {name} in 1s ="]))
    monkeypatch.setattr(sys, "argv", ["suite", "today", "test", "--date", "2026-11-23"])
    assert runner.main() == 0
    today = part_of_the_day(date(2026, 11, 23)).name
    assert f"The part of 2026-11-23: {today}" in capsys.readouterr().out.splitlines()[0]


def test_the_rest_is_every_part(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(
        runner, "run", lambda name, lines, **box: runner.Result(name, runner.CUT, summaries=["= all ="])
    )
    monkeypatch.setattr(sys, "argv", ["suite", "rest"])
    assert runner.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0].split()[-1] for line in lines if line.startswith("  CUT OFF")] == [*PARTS]
    assert [line for line in lines if line.startswith("NOT EVERYTHING WAS RUN")]
    assert lines[-len(PARTS) :] == ["= all ="] * len(PARTS)
