"""Runs Django's tests in this process, and prints the outcome of each as JSON."""

from __future__ import annotations

import json
import sys
import unittest
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import django
from django.test import SimpleTestCase, TransactionTestCase

from tests.tasks.django_suite import source, stand_ins

MODULES = ("test_tasks", "test_dummy_backend", "test_immediate_backend")


def main() -> None:
    django.setup()
    # Django's tests import their package as `tasks`.
    package = ModuleType("tasks")
    package.__path__ = [str(source.folder())]
    sys.modules["tasks"] = package
    know_tasks()
    # Django's backends need no tables, so its tests may not use any: ours needs those of its app.
    SimpleTestCase.databases = frozenset({"default"})
    suite = unittest.TestSuite()
    for name in MODULES:
        suite.addTest(unittest.defaultTestLoader.loadTestsFromName(f"tasks.{name}"))
    outcomes = Outcomes()
    for test in each(suite):
        if isinstance(test, TransactionTestCase):
            type(test).available_apps = None
    suite.run(outcomes)
    json.dump(outcomes.found, sys.stdout)


def know_tasks() -> None:
    from tasks import tasks

    from django_pgqueue.tasks import register
    from django_pgqueue.tasks.compat import Task

    for value in list(vars(tasks).values()):
        if isinstance(value, Task):
            register(value)


def each(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


class Outcomes(unittest.TestResult):
    """``found``: by test "passed" or the last line of what it raised; a test with subtests that fail has failed."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        stand_ins.empty()

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.found.setdefault(name(test), "passed")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._failed(test, err)

    addError = addFailure

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._failed(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.found[name(test)] = f"skipped: {reason}"

    def _failed(self, test: unittest.TestCase, err: Any) -> None:
        kind, error, _ = err
        self.found[name(test)] = f"{kind.__name__}: {error}"


def name(test: unittest.TestCase) -> str:
    return test.id().removeprefix("tasks.")
