"""Contestants take turns, so that a busy minute of the machine hits all of them; medians and paired ratios decide."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import median

from .machine import Others
from .measure import Figures


@dataclass(frozen=True, slots=True)
class Target:
    """A promise of the project about one contestant: its ratio to the baseline, with `absolute` its own figure, or the
    remark of the name `remark`."""

    contestant: str
    at_least: float | None = None
    at_most: float | None = None
    absolute: bool = False
    remark: str | None = None

    def met_by(self, value: float) -> bool:
        if self.at_least is not None:
            return value >= self.at_least
        return self.at_most is not None and value <= self.at_most

    def __str__(self) -> str:
        sign, bound = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        if self.remark:
            return f"{self.remark} {sign} {bound:g}"
        return f"{sign} {bound:,.0f}" if self.absolute else f"{sign} {bound:g}x"


@dataclass(frozen=True, slots=True)
class Contest:
    title: str
    unit: str
    baseline: str
    contestants: dict[str, Callable[[], Figures]]
    targets: tuple[Target, ...] = ()
    rounds: int | None = None  # where one run is long enough to be its own median

    def only(self, pattern: str) -> Contest | None:
        """With the contestants whose "title · name" has a match; None without any."""
        left = {name: run for name, run in self.contestants.items() if re.search(pattern, f"{self.title} · {name}")}
        return replace(self, contestants=left) if left else None


@dataclass(frozen=True, slots=True)
class Standing:
    """The results of one contestant in all rounds."""

    name: str
    runs: tuple[Figures, ...]
    ratio: float | None
    targets: tuple[Target, ...] = ()

    @property
    def value(self) -> float:
        return median(run.value for run in self.runs)

    def met(self, target: Target) -> bool | None:
        """None: it was not measured, because the baseline was left out."""
        if target.remark:
            return target.met_by(self.remarks()[target.remark])
        value = self.value if target.absolute else self.ratio
        return None if value is None else target.met_by(value)

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
    """Run every contestant once a round; every second round backwards, so that none always follows the same one."""
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
    if name != contest.baseline and contest.baseline in runs:
        pairs = zip(runs[name], runs[contest.baseline], strict=True)
        ratio = median(one.value / other.value if other.value else float("inf") for one, other in pairs)
    targets = tuple(target for target in contest.targets if target.contestant == name)
    return Standing(name, tuple(runs[name]), ratio, targets)
