"""Count the results for the dead letters that were chosen."""

from __future__ import annotations

from dataclasses import dataclass, field

# The most reasons that are kept; a broken payload is a reason of its own for each letter.
MOST_REASONS = 10


@dataclass(slots=True)
class Tally:
    """The results of a redrive, in letters.

    ``selected`` is the sum of the others. ``already``: redriven before; ``gone``: they do not exist any more;
    ``refused``: by their channel, or because their new payload is no JSON. ``reasons``: how many letters each reason
    refused.
    """

    selected: int = 0
    redriven: int = 0
    already: int = 0
    gone: int = 0
    refused: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def refuse(self, reason: str, letters: int) -> None:
        """Count letters as refused. No more than MOST_REASONS reasons are listed; the others are only counted."""
        self.refused += letters
        if reason in self.reasons or len(self.reasons) < MOST_REASONS:
            self.reasons[reason] = self.reasons.get(reason, 0) + letters

    def add(self, other: Tally) -> None:
        """Add the counts of another partition."""
        self.selected += other.selected
        self.redriven += other.redriven
        self.already += other.already
        self.gone += other.gone
        listed = sum(other.reasons.values())
        for reason, letters in other.reasons.items():
            self.refuse(reason, letters)
        self.refused += other.refused - listed
