"""What became of the dead letters that were chosen."""

from __future__ import annotations

from dataclasses import dataclass, field

# So many different reasons are told; a broken payload is a reason of its own for each letter.
REASONS = 10


@dataclass(slots=True)
class Tally:
    """``selected`` letters are the sum of the others. ``already``: redriven before; ``gone``: not there any more;
    ``refused``: by their channel, or because their new payload is no JSON, with what was said, and how often."""

    selected: int = 0
    redriven: int = 0
    already: int = 0
    gone: int = 0
    refused: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def refuse(self, reason: str, letters: int) -> None:
        self.refused += letters
        if reason in self.reasons or len(self.reasons) < REASONS:
            self.reasons[reason] = self.reasons.get(reason, 0) + letters

    def add(self, other: Tally) -> None:
        self.selected += other.selected
        self.redriven += other.redriven
        self.already += other.already
        self.gone += other.gone
        told = sum(other.reasons.values())
        for reason, letters in other.reasons.items():
            self.refuse(reason, letters)
        self.refused += other.refused - told
