"""Contestants take turns, so that a busy minute of the machine hits all of them; medians and paired ratios decide."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median

from .machine import Others
from .measure import Figures


@dataclass(frozen=True, slots=True)
class Target:
    """A promise of the project about one contestant: its ratio to the baseline, or with `absolute` its own figure."""

    contestant: str
    at_least: float | None = None
    at_most: float | None = None
    absolute: bool = False

    def met_by(self, value: float) -> bool:
        return value >= self.at_least if self.at_least is not None else value <= self.at_most

    def __str__(self) -> str:
        sign, bound = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        return f"{sign} {bound:,.0f}" if self.absolute else f"{sign} {bound:g}x"


@dataclass(frozen=True, slots=True)
class Contest:
    title: str
    unit: str
    baseline: str
    contestants: dict[str, Callable[[], Figures]]
    targets: tuple[Target, ...] = ()
    rounds: int | None = None  # where one run is long enough to be its own median


@dataclass(frozen=True, slots=True)
class Standing:
    """What one contestant reached in all rounds."""

    name: str
    runs: tuple[Figures, ...]
    ratio: float | None
    target: Target | None

    @property
    def value(self) -> float:
        return median(run.value for run in self.runs)

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.target.met_by(self.value if self.target.absolute else self.ratio)

    def remarks(self) -> dict[str, float]:
        return {name: median(run.remarks[name] for run in self.runs) for name in self.runs[0].remarks}

    def series(self) -> dict[str, tuple[float, ...]]:
        names = self.runs[0].series
        return {name: tuple(map(median, zip(*(run.series[name] for run in self.runs), strict=False))) for name in names}


@dataclass(frozen=True, slots=True)
class Result:
    contest: Contest
    standings: tuple[Standing, ...]
    others: tuple[float, ...] = field(default=())


def play(contest: Contest, rounds: int, others: Others, patience: float) -> Result:
    """Every contestant once a round; every second round backwards, so that nobody always follows the same one."""
    runs: dict[str, list[Figures]] = {name: [] for name in contest.contestants}
    busy = []
    for number in range(contest.rounds or rounds):
        names = list(contest.contestants)
        for name in reversed(names) if number % 2 else names:
            others.wait_until_quiet(patience)
            others.start()
            figures = contest.contestants[name]()
            busy.append(others.cores())
            print(f"  {contest.title} · {name}: {figures.value:,.1f} {contest.unit}", file=sys.stderr, flush=True)
            runs[name].append(replace(figures, remarks={**figures.remarks, "others' cores": busy[-1]}))
    return Result(contest, tuple(_standing(contest, name, runs) for name in runs), tuple(busy))


def _standing(contest: Contest, name: str, runs: dict[str, list[Figures]]) -> Standing:
    ratio = None
    if name != contest.baseline:
        pairs = zip(runs[name], runs[contest.baseline], strict=True)
        ratio = median(one.value / other.value if other.value else float("inf") for one, other in pairs)
    target = next((target for target in contest.targets if target.contestant == name), None)
    return Standing(name, tuple(runs[name]), ratio, target)
