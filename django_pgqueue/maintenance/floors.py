"""The tick: keeps the floors close to what is live, and makes scheduled messages ready that are due."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.lifecycle.tick import tick


@dataclass(frozen=True, slots=True)
class TickCounts:
    promoted: int


def run_once(using: str) -> TickCounts:
    return TickCounts(tick(using=using))
