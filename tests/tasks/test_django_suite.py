"""Django's own tests of the framework against our backend: exactly what the reference lists fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import django
import pytest

from tests.support.markdown import page, section
from tests.support.paths import REPOSITORY
from tests.tasks.django_suite import source

pytestmark = [
    pytest.mark.skipif(django.VERSION < (source.FIRST,), reason="Django 5.2 has no Tasks framework"),
    pytest.mark.timeout(400),
]
NEWEST = (6, 1)
MISSING = "Django's tests are not here: run `make tools`, which brings them by pip."
ROW = re.compile(r"^\| `(?P<test>[\w.]+)` \| `(?P<error>\w+)` \| (?P<reason>\S.*) \|$", re.MULTILINE)


def outcomes(environment: dict[str, str]) -> dict[str, str]:
    """Return the result of each test: "passed", or the class of its exception."""
    assert source.folder().exists(), MISSING
    path = [str(REPOSITORY), str(REPOSITORY / "testproject"), os.environ.get("PYTHONPATH", "")]
    given = {"DJANGO_SETTINGS_MODULE": "tests.tasks.django_suite.settings", "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.tasks.django_suite", "run"],
        cwd=REPOSITORY, env=environment | given, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.usefixtures("transactional_db")
def test_the_tests_of_django_that_fail_are_those_that_the_reference_lists(environment: dict[str, str]) -> None:
    listed = {
        row["test"]: row["error"]
        for row in ROW.finditer(section(page("docs/reference/tasks.md"), "Django's own tests"))
    }
    found = outcomes(environment)
    assert len(found) > 60
    if django.VERSION[:2] == NEWEST:
        assert set(listed) <= set(found), "the reference lists a test that is not there"
    expected = {test: listed.get(test, "passed") for test in found}
    assert {test: outcome.partition(":")[0] for test, outcome in found.items()} == expected, found
