"""A defect takes one guard away, as a hurried change might."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg


@dataclass(frozen=True, slots=True)
class Defect:
    """In ``function``, each ``find`` becomes ``replace``. ``breaks``: the invariants of which one must be violated.

    ``also``     more edits, (function, find, replace): the same rule in the short way of one message
    ``options``  of the run: for a defect that is in a reader and not in the queue, or that chance would hide
    """

    name: str
    function: str
    find: str
    replace: str
    breaks: frozenset[str] = frozenset()
    also: tuple[tuple[str, str, str], ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def edits(self) -> tuple[tuple[str, str, str], ...]:
        """All edits as (function, find, replace); none for a defect that is not in the database."""
        return ((self.function, self.find, self.replace), *self.also) if self.function else ()

    def is_in(self, functions: set[str]) -> bool:
        """Whether one of these functions, named without `pgqueue_`, has the guard."""
        return any(function in functions for function, _, _ in self.edits)

    def edited(self, source: str, edit: tuple[str, str, str]) -> str:
        """Return the source of a function after one of the edits. Raises ValueError when it does not contain the guard
        (any more)."""
        function, find, replace = edit
        if find not in source:
            raise ValueError(f"{self.name}: {function} has no {find!r}")
        return source.replace(find, replace)

    def install(self, session: psycopg.Connection[Any]) -> None:
        """Raises ValueError when a function does not contain the guard (any more)."""
        for edit in self.edits:
            query = "SELECT pg_get_functiondef(%s::regproc)"
            (source,) = session.execute(query, (f"pgqueue_{edit[0]}",)).fetchone() or ("",)
            session.execute(self.edited(source, edit))


def defect(
    name: str,
    function: str,
    find: str,
    replace: str,
    *breaks: str,
    also: tuple[tuple[str, str, str], ...] = (),
    **options: Any,
) -> Defect:
    return Defect(name, function, find, replace, frozenset(breaks), also, options)
