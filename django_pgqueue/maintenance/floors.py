"""The floors: kept close to what is live, so that no scan walks what is dead; and scheduled messages that are due become ready."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.lifecycle.tick import tick


@dataclass(frozen=True, slots=True)
class TickCounts:
    promoted: int


def run_once(using: str) -> TickCounts:
    return TickCounts(tick(using=using))
