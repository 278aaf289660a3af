"""Links, names of tests and imports in the documentation lead to something."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.markdown import DOCS, PAGES, anchors, blocks, links, name, prose
from tests.support.paths import REPOSITORY

IMPORT = re.compile(r"^(?:>>> )?from (django_pgqueue[\w.]*) import ([\w, ]+)$", re.MULTILINE)
# A page that says which test checks what it says, as `tests/lifecycle/test_enqueue.py::test_a_rollback_leaves_nothing`.
NAMED_TEST = re.compile(r"`((?:tests|verification)/[\w/]+\.py)(?:::(\w+))?`")


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_within_the_documentation_resolve(path: Path) -> None:
    for target in links(path):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        assert linked.exists(), f"{name(path)} links to {target}"
        if anchor:
            assert anchor in anchors(linked), f"{name(path)} links to {target}"


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=name)
def test_a_page_can_be_reached_from_the_index(path: Path) -> None:
    reached, left = set(), [DOCS / "index.md"]
    while left:
        reached.add(here := left.pop())
        targets = {(here.parent / target.partition("#")[0]).resolve() for target in links(here)}
        left += sorted(
            target
            for target in targets - reached
            if target.suffix == ".md" and DOCS in target.parents and target.exists()
        )

    assert path in reached


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_tests_that_are_named_exist(path: Path) -> None:
    for file, test in NAMED_TEST.findall(prose(path)):
        assert (REPOSITORY / file).exists(), file
        assert not test or f"def {test}(" in (REPOSITORY / file).read_text(), f"{file}::{test}"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_modules_and_names_that_are_imported_exist(path: Path) -> None:
    for block in blocks(path):
        if block.language in ("python", "pycon"):
            for module, names in IMPORT.findall(block.text):
                for public in names.split(", "):
                    there = hasattr(import_module(module), public) or find_spec(f"{module}.{public}")
                    assert there, f"{name(path)}: {module}.{public}"
