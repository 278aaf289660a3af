"""The plan of a run. Everything follows from the tier and the seed, so that a run can be repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

EQUAL = [f"free {letter}" for letter in "abcdef"]
CHANNELS: dict[str, dict[str, Any]] = {
    **{name: {} for name in EQUAL},
    "one": {"max_concurrency": 1},
    "three": {"max_concurrency": 3},
    "strict": {"ordered": True},
    "rated": {"release_interval": "50 ms", "release_burst": 3},
    "small": {"max_size": 20},
    "newest": {"max_size": 10, "full_policy": "drop_oldest"},
    "edited": {"max_concurrency": 2},
    "pausing": {},
}
# By their shares. Slow ones are enqueued by the driver, one by one.
KINDS = {"plain": 40, "atomic": 30, "fail": 8, "defer": 6, "async": 12, "reject": 2, "flaky": 5}
EFFECTS = {"plain": "plain", "async": "plain", "atomic": "atomic"}
LEASE = 3.0


@dataclass(frozen=True, slots=True)
class Tier:
    """``seconds`` of faults at least, ``faults`` of each kind.

    ``slow``: handlers that hold the GIL for three leases; ``crashing``: handlers that kill their worker once, and
    as many that do so when they have returned;
    ``backlog``: messages on each of the equal channels before anything is started. ``promotions``: runs of their own,
    each second one of a synchronous standby.
    """

    messages: int
    seconds: float
    faults: dict[str, int]
    slow: int = 4
    crashing: int = 4
    backlog: int = 150
    groups: int = 2
    processes: int = 2
    promotions: int = 0


TIERS = {
    "quick": Tier(
        1_000, 45,
        {
            "kill": 12, "stop": 3, "term": 1, "terminate": 4, "crash": 1, "cut": 2, "cut at commit": 2, "delay": 1,
            "swallow": 1, "refuse": 1, "lock": 2, "timeouts": 1, "exhaust": 1, "kill client": 1,
        },
        slow=1, crashing=1, backlog=80,
    ),
    "ci": Tier(
        20_000, 190,
        {
            "kill": 200, "stop": 20, "term": 4, "terminate": 40, "crash": 3, "cut": 10, "cut at commit": 10, "delay": 2,
            "swallow": 1, "refuse": 2, "lock": 3, "timeouts": 2, "exhaust": 2, "kill client": 3,
        },
    ),
    "nightly": Tier(
        500_000, 2_500,
        {
            "kill": 5_000, "stop": 500, "term": 60, "terminate": 1_000, "crash": 100, "cut": 300, "cut at commit": 300,
            "delay": 30, "swallow": 20, "refuse": 30, "lock": 60, "timeouts": 40, "exhaust": 40, "kill client": 60,
            "full disk": 5, "clock": 60, "migration": 10,
        },
        slow=40, crashing=40, groups=3, processes=3, promotions=4,
    ),
}  # fmt: skip


def scaled(tier: Tier, factor: float) -> Tier:
    """So many times as much of everything, in so many times the time; at least one of each."""
    faults = {kind: max(1, round(count * factor)) for kind, count in tier.faults.items()}
    return replace(
        tier, messages=round(tier.messages * factor), seconds=tier.seconds * factor, faults=faults,
        slow=max(1, round(tier.slow * factor)), crashing=max(1, round(tier.crashing * factor)),
        promotions=max(2, round(tier.promotions * factor)),
    )  # fmt: skip


# A rehearsal of the nightly run, and a weekend of them.
TIERS["tenth"] = scaled(TIERS["nightly"], 0.1)
TIERS["release"] = scaled(TIERS["nightly"], 10)


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """``at``: seconds since the first phase began; ``dice``: what is random about it (its victim, its length)."""

    at: float
    kind: str
    dice: tuple[float, ...] = field(compare=False)

    def pick(self, victims: list[Any], die: int = 0) -> Any:
        return victims[int(self.dice[die] * len(victims))] if victims else None

    def between(self, shortest: float, longest: float, die: int = 1) -> float:
        return shortest + self.dice[die] * (longest - shortest)


def schedule(tier: Tier, seed: int) -> list[Fault]:
    """The faults of a run, in their order. The first seconds and the last are left alone."""
    chance = random.Random(f"faults/{seed}")
    faults = []
    for kind, count in sorted(tier.faults.items()):
        for place in range(count):
            # One in each part of the time, somewhere within it.
            at = 2 + (tier.seconds - 4) * (place + chance.random()) / count
            faults.append(Fault(at, kind, tuple(chance.random() for _ in range(4))))
    return sorted(faults)
