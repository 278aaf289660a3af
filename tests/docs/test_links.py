"""Links, names of tests and imports in the documentation lead to something."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec

from tests.support.markdown import DOCS, PAGES, anchors, blocks, links, name, prose
from tests.support.paths import REPOSITORY

IMPORT = re.compile(r"^(?:>>> )?from (django_pgqueue[\w.]*) import ([\w, ]+)$", re.MULTILINE)
# A page that says which test checks what it says, as `tests/lifecycle/test_pop.py::test_it_is_delivered_once_only`.
NAMED_TEST = re.compile(r"`((?:tests|verification)/[\w/]+\.py)(?:::(\w+))?`")


def test_links_within_the_documentation_resolve() -> None:
    broken = []
    for path in PAGES:
        for target in links(path):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            linked = (path.parent / file).resolve() if file else path
            if not linked.exists() or (anchor and anchor not in anchors(linked)):
                broken.append(f"{name(path)} links to {target}")
    assert not broken, "\n".join(broken)


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, left = set(), [DOCS / "index.md"]
    while left:
        reached.add(here := left.pop())
        targets = {(here.parent / target.partition("#")[0]).resolve() for target in links(here)}
        left += [target for target in targets - reached if target.suffix == ".md" and target.is_relative_to(DOCS)]
    assert set(DOCS.rglob("*.md")) - reached == set()


def test_tests_that_are_named_exist() -> None:
    for path in PAGES:
        for file, test in NAMED_TEST.findall(prose(path)):
            assert (REPOSITORY / file).exists(), f"{name(path)}: {file}"
            there = not test or f"def {test}(" in (REPOSITORY / file).read_text()
            assert there, f"{name(path)}: {file}::{test}"


def test_modules_and_names_that_are_imported_exist() -> None:
    for path in PAGES:
        for block in blocks(path):
            if block.language in ("python", "pycon"):
                for module, names in IMPORT.findall(block.text):
                    for public in names.split(", "):
                        there = hasattr(import_module(module), public) or find_spec(f"{module}.{public}")
                        assert there, f"{name(path)}: {module}.{public}"
