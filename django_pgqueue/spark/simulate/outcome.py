"""The outcome of a simulation: the waits of each channel in the archive and in the simulation."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django_pgqueue.spark.simulate.capacity import Capacity
from django_pgqueue.spark.simulate.engine import SimulationResult
from django_pgqueue.spark.simulate.lane import SimulatedMessage

PERCENTILES = (50, 95, 99)
SECOND_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits of a channel.

    ``actual``, ``simulated``: seconds from being due to the start of the last handler, at PERCENTILES
    (percentile_disc); where the archive does not have that, to the last lease.
    """

    messages: int
    actual: tuple[float, ...]
    simulated: tuple[float, ...]
    left: int = 0


@dataclass(frozen=True, slots=True)
class SimulationOutcome:
    """The outcome of a simulation.

    ``off``: the seconds by which the simulated wait of a message differs from the actual one, at PERCENTILES.
    ``utilization``: the part of the workers' time in which their handlers ran.
    """

    capacity: Capacity
    all: Waits
    channels: dict[str, Waits]
    off: tuple[float, ...]
    utilization: float
    limits: dict[str, dict[str, Any]]
    queue_limits: dict[str, Any] = field(default_factory=dict)
    shared_limits: dict[str, dict[str, Any]] = field(default_factory=dict)


class WaitRecorder:
    """Collect waits while a simulation runs; it needs about 16 bytes per message."""

    def __init__(self) -> None:
        self._waits: dict[str, tuple[array[int], array[int]]] = {}

    def __call__(self, message: SimulatedMessage, waited: int) -> None:
        pair = self._waits.get(message.channel)
        if pair is None:
            pair = self._waits[message.channel] = (array("q"), array("q"))
        pair[0].append(message.waited)
        pair[1].append(waited)

    def outcome(
        self, result: SimulationResult, capacity: Capacity, began_at: int, limits: Mapping[str, dict[str, Any]]
    ) -> SimulationOutcome:
        """Return the waits of each channel and of all, and how much of the workers' time was used.

        ``began_at``: the start of the replay, in microseconds. ``limits``: those of each channel, as JSON.
        """
        names = sorted({*self._waits, *result.left})
        nothing = (array("q"), array("q"))
        channels = {name: waits(*self._waits.get(name, nothing), result.left.get(name, 0)) for name in names}
        actual = array("q", (wait for pair in self._waits.values() for wait in pair[0]))
        simulated = array("q", (wait for pair in self._waits.values() for wait in pair[1]))
        slots = capacity.workers * capacity.concurrency
        off = [abs(was - is_now) for was, is_now in zip(actual, simulated, strict=True)]
        return SimulationOutcome(
            capacity=capacity,
            all=waits(actual, simulated, sum(result.left.values())),
            channels=channels,
            off=percentiles(off),
            utilization=result.busy / max(slots * (result.ended_at - began_at), 1),
            limits={name: limits[name] for name in names if name in limits},
        )


def waits(actual: Iterable[int], simulated: Iterable[int], left: int) -> Waits:
    """Return the percentiles of waits that are given in microseconds. ``left``: messages that were still waiting at the
    end.
    """
    was = sorted(actual)
    return Waits(len(was) + left, percentiles(was), percentiles(simulated), left)


def percentiles(values: Iterable[int]) -> tuple[float, ...]:
    """Return the percentiles in seconds of values in microseconds, as PostgreSQL's percentile_disc.

    Without values it returns ().
    """
    ordered = sorted(values)
    return (
        tuple(ordered[max(-(-len(ordered) * p // 100) - 1, 0)] / SECOND_MICROSECONDS for p in PERCENTILES)
        if ordered
        else ()
    )
