"""Reads the documentation: its pages, their fenced blocks, headings and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.paths import REPOSITORY

DOCS = REPOSITORY / "docs"
BESIDE = ("README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
HARNESSES = (REPOSITORY / "verification").glob("*/README.md")
PAGES = sorted([*DOCS.rglob("*.md"), *(REPOSITORY / name for name in BESIDE), *HARNESSES])

FENCE = re.compile(r"^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """```` ```python file=shop/models.py ```` has the language python and the word file=shop/models.py."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int

    def option(self, name: str) -> str | None:
        return next((word.removeprefix(f"{name}=") for word in self.words if word.startswith(f"{name}=")), None)


def name(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def page(path: str) -> str:
    return (REPOSITORY / path).read_text()


def blocks(path: Path) -> list[Block]:
    text = path.read_text()
    found = []
    for match in FENCE.finditer(text):
        language, *words = match["info"].split() or [""]
        found.append(Block(language, tuple(words), match["text"], text.count("\n", 0, match.start("text")) + 1))
    return found


def is_followed(path: Path) -> bool:
    """Whether the page is followed from an empty folder: then its blocks are no snippets that run by themselves."""
    return any(block.option("file") or block.option("append") for block in blocks(path))


def prose(path: Path) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub("", path.read_text())


def links(path: Path) -> Iterator[str]:
    for match in LINK.finditer(prose(path)):
        yield match["target"]


def anchors(path: Path) -> set[str]:
    """Return the anchors of the headings, by the rules of GitHub and of MyST."""
    headings = re.findall(r"^#+ +(.+?) *$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def section(text: str, heading: str) -> str:
    """The text under a heading, to the next one of the same or a higher level."""
    match = re.search(rf"^(?P<level>#+) +{re.escape(heading)} *$", text, re.MULTILINE)
    assert match, f"there is no heading {heading!r}"
    rest = text[match.end() :]
    end = re.search(rf"^#{{1,{len(match['level'])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest
