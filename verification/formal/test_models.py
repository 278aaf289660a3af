"""The models hold as the queue is, and each guard that is removed shows what it is for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.markdown import page, section
from tests.support.paths import REPOSITORY
from verification.formal.models import CONSTANTS, MODELS, Model
from verification.formal.tlc import SPECS, Answer, Configuration, check

# Each starts TLC, on a machine that may be busy.
pytestmark = pytest.mark.timeout(1200)
PAGE, GUARDS = "docs/explanation/formal-model.md", "verification/formal/guards.md"
ROW = re.compile(r"^\| (?P<name>[^|`]+) \| `(?P<breaks>\w+)` \| (?P<steps>\d+) \|$", re.MULTILINE)
DOCUMENTED = {row["name"]: (row["breaks"], int(row["steps"])) for row in ROW.finditer(page(GUARDS))}
GUARDED = [model for model in MODELS if model.removed]


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Answer]]]:
    """Run the models that were chosen: TLC has a thread of its own for each, and starting takes it longer than most."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    tests = [item for item in items if item.module is request.module]
    chosen: list[Any] = [item.callspec.params["model"] for item in tests if "answers" in item.fixturenames]
    pool = ThreadPoolExecutor(min(2, os.cpu_count() or 1))
    yield {model.name: pool.submit(model.check) for model in chosen}
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(
    "model", [pytest.param(model, id=model.name, marks=[pytest.mark.slow] * model.slow) for model in MODELS]
)
def test_a_model_holds_unless_a_guard_is_removed(model: Model, answers: dict[str, Future[Answer]]) -> None:
    answer = answers[model.name].result()
    assert answer.violated == model.breaks, answer.output[-4000:]
    if model.removed:
        assert (answer.violated, len(answer.steps) - 1) == DOCUMENTED[model.removed]


def test_the_documentation_tells_each_guard_with_what_breaks_without_it() -> None:
    assert list(DOCUMENTED) == [model.removed for model in GUARDED]
    documented = section(page(GUARDS), "What holds")
    for name in sorted({name for model in MODELS for name in checked(model.configuration())}):
        assert f"`{name}`" in documented, name


def checked(configuration: Configuration) -> tuple[str, ...]:
    return configuration.invariants + configuration.properties


def test_every_guard_is_removed_once() -> None:
    """A constant that is TRUE in all configurations says nothing about the queue."""
    for module, constants in CONSTANTS.items():
        removed = {name for model in GUARDED if model.module == module for name in model.changes}
        text = (SPECS / f"{module}.tla").read_text()
        guards = set(re.findall(r"^    (\w+),? *\\\* (?:FALSE|rule): ", text, re.MULTILINE))
        assert guards == {name for name, given in constants.items() if given is True} - {"Drops"}
        assert guards <= removed


WIDE: dict[str, dict[str, Any]] = {
    "Lease": {"Messages": "{m1}", "Cancels": True, "MaxFailovers": 1, "Supervised": True},
    "Line": {"MaxReturns": 1},
    "Turns": {"Channels": "{a, b}", "Weight": 2},
    "Keys": {"Messages": "{1, 2}"},
    "Events": {"Messages": "{m1}"},
    "LockOrder": {"MaxCalls": 1},
    "ArchiveReader": {"Transactions": "{t1, t2}", "MaxServerCrashes": 1},
}
# Steps that only a removed guard makes possible.
ABSENT = {"Delete", "Look", "TakeId", "TellCursor"}


@pytest.mark.parametrize("module", WIDE)
def test_every_action_of_a_model_happens(module: str) -> None:
    """A model that holds because nothing happens in it holds nothing."""
    configuration = Configuration(module, CONSTANTS[module] | WIDE[module], coverage=True)
    covered = check(configuration).output.rpartition("The coverage statistics")[2]
    counts = re.findall(r"^<(\w+) line .*>: \d+:(\d+)$", covered, re.MULTILINE)
    happened = {name for name, count in counts if int(count)}
    never = {name for name, _ in counts} - happened
    assert never <= ABSENT
    assert len(happened) >= 4


def test_the_documentation_names_the_specifications() -> None:
    for path in SPECS.glob("*.tla"):
        assert f"`verification/formal/specs/{path.name}`" in page(PAGE)
        assert (REPOSITORY / "verification" / "formal" / "specs" / path.name).exists()
