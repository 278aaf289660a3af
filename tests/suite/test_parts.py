"""Every test is in one part, every name in the list of parts is that of a test, and the runner says what happened."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.suite import __main__ as runner
from tests.suite.changes import SINCE, changed_files, changed_functions
from tests.suite.parts import COUNTED, LONGEST, MAIN, PARTS, QUICK, REST, SQL, part_of, parts_for, within
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


def test_a_change_calls_the_parts_that_guard_it():
    assert [part.name for part in parts_for(["django_pgqueue/admin/queue.py"])] == ["browser"]
    assert {part.name for part in parts_for(["README.md", "django_pgqueue/worker/worker.py"])} == {"guides", "faults"}
    assert not parts_for(["LICENSE"])
    seconds = [part.seconds for part in parts_for(["django_pgqueue/sql/functions/maintenance/pgqueue_tick_v01.sql"])]
    assert seconds == sorted(seconds)


def test_each_guarded_path_is_there_and_each_part_that_guards_says_how_long_it_takes():
    for part in REST:
        for path in part.guards:
            assert (REPOSITORY / path).exists(), path
        assert bool(part.guards) == bool(part.seconds), part.name


def test_changes_are_those_since_a_commit_and_everything_where_git_does_not_know(monkeypatch: pytest.MonkeyPatch):
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if head.returncode == 0:
        assert len(changed_files("no-such-commit")) > 1000
    assert changed_files("no-such-commit"), "without git, too"
    monkeypatch.delenv(SINCE, raising=False)
    assert changed_functions() is None, "a run of everything"
    monkeypatch.setenv(SINCE, "no-such-commit")
    assert head.returncode or "tick" in changed_functions()


SUITE = """
def test_one(): pass
def test_two(): {two}
def test_three(): pass
"""


def outcome(folder: Path, *, two: str = "pass") -> runner.Result:
    (folder / "test_suite.py").write_text(SUITE.format(two=two))
    plugins = ("-p", "no:cacheprovider", "-p", "no:django", "-p", "tests.suite.plugin")
    line = ("pytest", *plugins, "-ra", f"--rootdir={folder}", "-c", "/dev/null", str(folder))
    return runner.run("some", (line,))


def test_the_summary_of_pytest_is_kept(tmp_path: Path):
    result = outcome(tmp_path)
    assert result.verdict == runner.PASSED
    assert re.fullmatch(r"=+ 3 passed in [\d.]+s =+", result.summaries[0])


def test_a_part_that_does_not_end_is_cut_off_which_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    endless = "import time; time.sleep(3600)"
    status, interrupted, _ = runner.follow([sys.executable, "-c", endless], limit=2)
    assert interrupted
    assert status != 0
    monkeypatch.setattr(runner, "run", lambda name, lines: runner.Result(name, runner.CUT))
    monkeypatch.setattr(sys, "argv", ["suite", "test"])
    assert runner.main() == 1
