"""The contestants of each workload, and the project's promise about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from verification.benchmarks.contest import Contest, Result, Standing
from verification.benchmarks.measure import Figures

from . import workloads
from .roster import OURS
from .workloads import Field


@dataclass(frozen=True, slots=True)
class Workload:
    """`uses`: the settings that take part; `reference`: ours, with which all are compared. `lower`: less is better."""

    title: str
    unit: str
    measure: Callable[..., Figures]
    uses: tuple[str, ...]
    reference: str
    lower: bool = False
    backlog: bool = False

    def contest(self, field: Field) -> Contest:
        contestants: dict[str, Callable[[], Figures]] = {
            f"{peer.name}, {name}": partial(self.measure, field, peer, peer.settings[name])
            for peer in field.peers
            for name in self.uses
            if name in peer.settings and (self.measure not in PACED or peer.settings[name].keeps_pace)
        }
        if self.measure is workloads.kill_worker:
            ours = next(peer for peer in field.peers if peer.name == OURS)
            child = partial(self.measure, field, ours, ours.settings["default"], child=True)
            contestants = {f"{OURS}, child": child, **contestants}
        return Contest(self.title, self.unit, f"{OURS}, {self.reference}", contestants)


# They offer messages at a rate.
PACED = (workloads.latency, workloads.load)
WORKLOADS = {
    "drain": Workload(
        "drain of a backlog", "messages/s", workloads.drain, ("default", "sync", "best"), "best", backlog=True
    ),
    "sustained": Workload(
        "8 producers, one message a call", "completed/s", workloads.sustained, ("slots", "sync", "best"), "slots"
    ),
    "latency": Workload(
        "idle: commit to handler start",
        "ms (p50)",
        workloads.latency,
        ("default", "best", "notify"),
        "default",
        lower=True,
    ),
    "load": Workload(
        "8 producers at a rate: commit to handler start",
        "ms (p50)",
        workloads.load,
        ("default", "slots", "best"),
        "default",
        lower=True,
    ),
    "poison": Workload(
        "1 % poison: p99 of the healthy", "times", workloads.poison, ("slots",), "slots", lower=True
    ),
    "kill": Workload(
        "SIGKILL of the worker to redelivery", "s", workloads.kill_worker, ("default",), "default", lower=True
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """One workload, played; `labels` are the settings behind the contestants' names."""

    workload: str
    result: Result
    labels: dict[str, str]

    @property
    def lower(self) -> bool:
        return WORKLOADS[self.workload].lower

    def find(self, name: str) -> Standing | None:
        return next((standing for standing in self.result.standings if standing.name == name), None)

    def advantage(self, standing: Standing, reference: str | None = None) -> float | None:
        """How many times better ours is, as the median of the rounds; None where it is compared with itself."""
        ours = self.find(reference or self.result.contest.baseline)
        if ours is None or ours is standing:
            return None
        return workloads.middle(
            theirs.value / mine.value if self.lower else mine.value / theirs.value
            for mine, theirs in zip(ours.runs, standing.runs, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Promise:
    text: str
    value: float
    bound: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        return f"{self.text}: {self.value:.2f}, promised {sign} {self.bound:g}: {'met' if self.met else 'MISSED'}"


# Workload, our settings, theirs, and how many times theirs ours is at least.
AGAINST = (
    ("drain", "best", "pgqueuer, best", 1.2),
    ("drain", "sync", "procrastinate, best", 5.0),
    ("drain", "sync", "django-tasks-db, best", 20.0),
    *(
        ("sustained", "slots", f"{peer}, {settings}", 1.0)
        for peer in ("procrastinate", "pgqueuer", "django-tasks-db", "graphile-worker", "awa-pg", "pg-boss", "dbos")
        for settings in ("slots", "best")
    ),
)


def promises(outcomes: list[Outcome]) -> list[Promise]:
    found = []
    for outcome in outcomes:
        found += _against(outcome)
        if outcome.workload == "latency" and (ours := outcome.find(f"{OURS}, default")):
            found.append(Promise("idle p50, ms", ours.value, 2, at_most=True))
            found.append(Promise("idle p99, ms", ours.remarks()["p99"], 6, at_most=True))
        if outcome.workload == "kill":
            for name in (f"{OURS}, default", f"{OURS}, child"):
                found.append(Promise(f"{name}: redelivered after, s", measured(outcome, name).value, 21, at_most=True))
        if outcome.workload == "poison" and (ours := outcome.find(f"{OURS}, slots")):
            found.append(Promise("poison: p99 with to without", ours.value, 1.5, at_most=True))
            off = max(abs(run.remarks["dead letters"] - run.remarks["poison"]) for run in ours.runs)
            found.append(Promise("poison: dead letters too many or too few", off, 0, at_most=True))
    return found


def _against(outcome: Outcome) -> list[Promise]:
    found = []
    for workload, settings, rival, bound in AGAINST:
        # Without coroutines there is one best setting, and it is the sync one.
        name = next((n for n in (f"{OURS}, {settings}", f"{OURS}, best") if outcome.find(n)), None)
        if workload == outcome.workload and name and (standing := outcome.find(rival)):
            advantage = outcome.advantage(standing, name)
            assert advantage is not None, f"{rival} has no advantage of itself"
            found.append(Promise(f"{workload}: {name} to {rival}", advantage, bound))
    return found


def measured(outcome: Outcome, name: str) -> Standing:
    """Return how a contestant stands that took part."""
    standing = outcome.find(name)
    assert standing is not None, f"{name} did not take part"
    return standing
