"""The cost of the verbs, in ratios, and its limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from .stations import BATCH, CHANNELS, Spent, Station

ALL_THREE = ("enqueue", "dequeue", "complete")
Key = tuple[str, str, int]  # station, design, channels


@dataclass(frozen=True, slots=True)
class Budget:
    """A figure that is to fall to `bound`."""

    text: str
    value: float
    bound: float

    def __str__(self) -> str:
        verdict = "met" if self.value <= self.bound else f"MISSED by {self.value / self.bound:.2f}x"
        return f"{self.text}: {self.value:.2f}, budget {self.bound:g}: {verdict}"


class Results:
    """The cost in all rounds, by station, design and number of channels."""

    def __init__(self) -> None:
        self._spent: dict[Key, list[Spent]] = {}

    def add(self, station: Station, spent: Spent) -> None:
        self._spent.setdefault((station.name, station.calls.name, station.channels), []).append(spent)

    def verbs(self) -> Iterator[tuple[str, str, int, str]]:
        """Station, design, channels and verb of each figure, as they were measured."""
        for (station, design, channels), rounds in self._spent.items():
            for verb in rounds[0]:
                yield station, design, channels, verb

    def micros(self, station: str, design: str, channels: int, *verbs: str) -> float | None:
        """Return the median of the rounds, of several verbs together; None where they were not measured."""
        rounds = self._spent.get((station, design, channels))
        if not rounds or not set(verbs) <= set(rounds[0]):
            return None
        return median(sum(spent[verb] for verb in verbs) for spent in rounds)

    def ratio(self, station: str, design: str, baseline: str, channels: int, *verbs: str) -> float | None:
        """Return the median of the ratios of one round."""
        pairs = [self._spent.get((station, name, channels), []) for name in (design, baseline)]
        if not all(pairs) or not all(set(verbs) <= set(rounds[0]) for rounds in pairs):
            return None
        mine, theirs = ([sum(spent[verb] for verb in verbs) for spent in rounds] for rounds in pairs)
        return median(one / other for one, other in zip(mine, theirs, strict=True))


def budgets(results: Results, design: str, baseline: str) -> list[Budget]:
    """Return the budgets of the hot path, of what was measured."""
    found = []
    for channels in CHANNELS:
        places = f"{channels:,} channel{'s' if channels > 1 else ''}"
        ratio = results.ratio("one a call", design, baseline, channels, *ALL_THREE)
        if ratio is not None:
            found.append(Budget(f"enqueue + dequeue + complete, one a call, {places}, to {baseline}", ratio, 1.1))
    for channels, bound in zip(CHANNELS, (0.9, 1.2), strict=True):
        places = f"{channels:,} channel{'s' if channels > 1 else ''}"
        taken = results.micros(f"{BATCH} a call", design, channels, "dequeue", "complete")
        plain = results.micros("one a call", design, channels, "plain INSERT")
        if taken is not None and plain is not None:
            found.append(
                Budget(f"dequeue + complete, {BATCH} a call, {places}, in plain INSERTs", taken / plain, bound)
            )
    insert, plain = (results.micros("one a call", design, 1, verb) for verb in ("INSERT", "plain INSERT"))
    if insert is not None and plain is not None:
        found.append(Budget("INSERT into the queue, to a plain INSERT", insert / plain, 2.2))
    return found
