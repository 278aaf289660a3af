"""pytest --part=NAME: the tests of one part of the suite, see parts.py. With -n, a file is run by one process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.suite.parts import LONGEST, MAIN, PARTS, QUICK, part_of, within
from tests.support.paths import REPOSITORY

ADDRESS = "The name of a test has an address in it, which is another one in each process; give its parameters ids"
# Until the tests are collected, what is compiled is written, also where PYTHONDONTWRITEBYTECODE is set: half of the
# time of the collection is pytest's work on the assertions. While tests run, modules come and go.
WRITES_NOT, sys.dont_write_bytecode = sys.dont_write_bytecode, False
# One session of Spark for all of them: it starts slowly.
TOGETHER = ("tests/spark",)


def pytest_addoption(parser: pytest.Parser) -> None:
    choices = (MAIN, "quick", *PARTS)
    parser.addoption("--part", choices=choices, help="only the tests of this part of the suite; see tests/suite")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that another part has as a whole: each process would read them, for nothing."""
    if config.option.part not in (MAIN, "quick") or not collection_path.is_relative_to(REPOSITORY):
        return None
    return part_of(collection_path.relative_to(REPOSITORY).as_posix()) != MAIN or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if unstable := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"{ADDRESS}: {', '.join(unstable)}")
    if part := config.option.part:
        others = [item for item in items if not is_in(part, item)]
        items[:] = [item for item in items if item not in set(others)]
        config.hook.pytest_deselected(items=others)
    items.sort(key=lambda item: within(item.nodeid, LONGEST) is None)


def pytest_collection_finish() -> None:
    sys.dont_write_bytecode = WRITES_NOT


def is_in(part: str, item: pytest.Item) -> bool:
    own = part_of(item.nodeid, slow=item.get_closest_marker("slow") is not None)
    if part == "quick":
        return own == MAIN and within(item.nodeid, QUICK) is not None
    return own == part


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each file to one process, for the sake of its fixtures, in the order of the collection."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return within(nodeid, TOGETHER) or nodeid.partition("::")[0]

    config.option.loadscopereorder = False
    return ByFile(config, log)
