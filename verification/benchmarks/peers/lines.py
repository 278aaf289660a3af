"""The lines that a user of each contestant writes for the same work: its programs of the benchmark, counted.

The work is the same for each: install, four handlers with their retries, one message a call, a backlog in bulk where
that is possible, and a worker. What all share is in `programs/common.*` and is not counted.
"""

from __future__ import annotations

import io
import tokenize
from functools import cache
from pathlib import Path

from .environments import PROGRAMS
from .roster import OUR_SOURCES, OURS, PEERS

NOT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@cache
def lines() -> dict[str, int]:
    """Return how many lines of code the programs of each contestant have, without blank ones, comments, docstrings."""
    sources = {OURS: OUR_SOURCES, **{peer.name: peer.sources for peer in PEERS}}
    return {name: sum(code_lines(PROGRAMS / source) for source in files) for name, files in sources.items()}


def code_lines(path: Path) -> int:
    """Return the lines of a program in Python (`.py`) or in JavaScript that hold code."""
    text = path.read_text()
    if path.suffix != ".py":
        return sum(1 for line in map(str.strip, text.splitlines()) if line and not line.startswith("//"))
    found: set[int] = set()
    begins = True  # of a statement: a string there is a docstring
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in NOT_CODE:
            begins = begins or token.type == tokenize.NEWLINE
        elif not (begins and token.type == tokenize.STRING):
            begins = False
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found)


def lines_table(*, markdown: bool) -> str:
    """Return the table of all contestants, the shortest first."""
    rows = sorted((count, name) for name, count in lines().items())
    if markdown:
        return "\n".join(["| Queue | Lines |", "|---|---|", *(f"| {name} | {count} |" for count, name in rows)])
    return "\n".join(f"{count:4}  {name}" for count, name in rows)
