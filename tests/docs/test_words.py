"""Sentences in code and pages have a subject that is named: the rule is in CONTRIBUTING.md."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.markdown import PAGES, prose
from tests.support.paths import REPOSITORY

TREES = ("django_pgqueue", "docs", "testproject", "tests", "verification")
SOURCES = sorted(path for tree in TREES for path in (REPOSITORY / tree).rglob("*.py"))
# A message, a worker and a row are "it"; a person is named by a role: user, operator, reader.
RIDDLE = re.compile(
    r"\b(nobody|somebody|everybody|anybody|whoever|told|he|his|him|(?:became|becomes?) of)\b", re.IGNORECASE
)
FRAGMENT = re.compile(r"(Of|What|Whatever|Who|Whoever|Nobody|Somebody)\b(?!.*\?)")
CODE = re.compile(r"``.*?``|`.*?`|\".*?\"")
"""What is quoted keeps its own words."""
STARTS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.COMMENT, tokenize.ENCODING)


def sentences_of_code(source: str) -> Iterator[str]:
    """Yield each docstring and each comment of one or more lines."""
    before, comment, end = tokenize.ENCODING, "", 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("# ")
            comment = f"{comment} {text}" if comment and token.start[0] == end + 1 else text
            end = token.end[0]
        elif comment and token.type not in (tokenize.NL, tokenize.COMMENT):
            yield comment
            comment = ""
        if token.type == tokenize.STRING and before in STARTS and token.string.startswith('"""'):
            yield " ".join(token.string.strip('"').split())
        before = token.type


def riddles(text: str) -> list[str]:
    return [match[0] for match in RIDDLE.finditer(CODE.sub("", text))]


@pytest.mark.parametrize("tree", TREES)
def test_docstrings_and_comments_name_the_subject(tree: str) -> None:
    found = {}
    for path in SOURCES:
        if path.is_relative_to(REPOSITORY / tree) and path != Path(__file__):
            texts = list(sentences_of_code(path.read_text(encoding="utf-8")))
            wrong = [text for text in texts if riddles(text) or FRAGMENT.match(text)]
            found |= {path.relative_to(REPOSITORY).as_posix(): wrong} if wrong else {}
    assert found == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_pages_name_the_subject(page: Path) -> None:
    assert riddles(prose(page)) == []


def test_each_class_of_the_package_has_a_name_of_its_own() -> None:
    """Django and the migrations give these names: Command, Meta, Migration."""
    package = [path for path in SOURCES if path.is_relative_to(REPOSITORY / "django_pgqueue")]
    names = Counter(
        name
        for path in package
        for name in re.findall(r"^ *class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert len(names) > 300
    assert sorted(name for name, count in names.items() if count > 1) == ["Command", "Meta", "Migration"]


def test_names_of_tests_name_the_subject() -> None:
    names = {name for path in SOURCES for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))}
    assert len(names) > 2500
    wrong = [name for name in names if riddles(name.replace("_", " ")) or name.startswith(("test_who_", "test_what_"))]
    # The user of the operating system.
    assert sorted(wrong) == ["test_the_server_runs_as_nobody_on_data_that_only_nobody_can_read"]


@pytest.mark.parametrize(
    "text",
    [
        'def f():\n    """What becomes of it."""',
        "# Of the first one\nx = 1",
        "x = 1  # his own",
        '"""The page that somebody reads."""',
        "# One line,\n# and nobody in the next\nx = 1",
    ],
)
def test_a_riddle_is_found(text: str) -> None:
    assert [text for text in sentences_of_code(text) if riddles(text) or FRAGMENT.match(text)]


@pytest.mark.parametrize("text", ["# The user `nobody`\nx = 1", 'x = "nobody"', "# A message of its own\nx = 1"])
def test_quoted_words_and_whole_sentences_are_no_riddles(text: str) -> None:
    assert not [text for text in sentences_of_code(text) if riddles(text) or FRAGMENT.match(text)]
