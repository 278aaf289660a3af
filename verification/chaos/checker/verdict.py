"""The verdict of one invariant about a history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from verification.chaos.history import History

from .lives import Lives

# Each thing that was looked at: None if it was as it must be, else what is wrong, and where.
Findings = Iterator[str | None]
Check = Callable[[History, Lives], Findings]
KEPT = 50


@dataclass(slots=True)
class Verdict:
    """``checked``: how many things were looked at; 0 means that the history says nothing about this invariant."""

    name: str
    title: str
    checked: int = 0
    broken: int = 0
    violations: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, check: Check, history: History, lives: Lives) -> Verdict:
        verdict = cls(check.__name__.partition("_")[0].upper(), (check.__doc__ or "").splitlines()[0])
        for finding in check(history, lives):
            verdict.checked += 1
            if finding is not None:
                verdict.broken += 1
                if len(verdict.violations) < KEPT:
                    verdict.violations.append(finding)
        return verdict

    def __str__(self) -> str:
        state = "ok" if not self.broken else f"{self.broken} VIOLATIONS"
        return f"{self.name:4} {self.title:62} {self.checked:9,} checked  {state if self.checked else 'not exercised'}"
