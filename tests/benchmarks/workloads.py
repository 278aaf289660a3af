"""The contests: who is measured at what, against whom, and what the project promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from . import bulk
from .cluster import Cluster
from .contest import Contest, Target
from .design import CHANNEL_ROW, PGQUEUE, RAW_FLOOR, Design
from .latency import idle_latency, sustained
from .measure import drain, mixed, single
from .pinned import OFFERED, pinned
from .worker import drain_by_worker


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how much; `sketches` are designs from outside that take part."""

    cluster: Cluster
    seconds: float
    backlog: int
    sketches: tuple[Design, ...] = ()

    @property
    def long(self) -> float:
        """For effects that build up."""
        return self.seconds * 6


def designs(plan: Plan) -> list[Design]:
    return [RAW_FLOOR, CHANNEL_ROW, PGQUEUE, *plan.sketches]


def _mixed(plan: Plan) -> list[Contest]:
    def contest(channels: int, at_least: float) -> Contest:
        return Contest(
            f"8 producers + 8 consumers, one message per call, {channels:,} channels",
            "completed/s",
            CHANNEL_ROW.name,
            {
                design.name: partial(mixed, plan.cluster, design, channels=channels, seconds=plan.seconds)
                for design in designs(plan)
            },
            (Target(PGQUEUE.name, at_least=at_least),),
        )

    return [contest(1, 5.0), contest(1_000, 1.2)]


def _mixed_batch(plan: Plan) -> list[Contest]:
    return [
        Contest(
            f"8 producers + 8 consumers, batch 50, {channels:,} channels",
            "completed/s",
            RAW_FLOOR.name,
            {
                design.name: partial(mixed, plan.cluster, design, channels=channels, seconds=plan.seconds, batch=50)
                for design in (RAW_FLOOR, PGQUEUE, *plan.sketches)
            },
        )
        for channels in (1, 1_000)
    ]


def _drain(plan: Plan) -> list[Contest]:
    def contest(channels: int, targets: tuple[Target, ...]) -> Contest:
        run = partial(
            drain, channels=channels, backlog=plan.backlog, batch=50, clients=4, seconds=max(20.0, plan.seconds)
        )
        return Contest(
            f"drain of {plan.backlog:,}, batch 50, 4 consumers, {channels:,} channels",
            "messages/s",
            RAW_FLOOR.name,
            {design.name: partial(run, plan.cluster, design) for design in (RAW_FLOOR, PGQUEUE, *plan.sketches)},
            targets,
        )

    return [contest(1, (Target(PGQUEUE.name, at_least=0.6),)), contest(1_000, ())]


def _drain_single(plan: Plan) -> list[Contest]:
    return [
        Contest(
            f"drain, one message per call, 8 consumers, {channels:,} channels",
            "messages/s",
            CHANNEL_ROW.name,
            {
                design.name: partial(
                    drain,
                    plan.cluster,
                    design,
                    channels=channels,
                    backlog=plan.backlog // 2,
                    batch=1,
                    clients=8,
                    seconds=plan.seconds,
                )
                for design in designs(plan)
            },
        )
        for channels in (1, 1_000)
    ]


def _enqueue(plan: Plan) -> list[Contest]:
    def contest(clients: int) -> Contest:
        run = partial(single, plan.cluster, clients=clients, seconds=plan.seconds)
        return Contest(
            f"enqueue one message, {clients} client{'s' if clients > 1 else ''}",
            "µs",
            "plain INSERT",
            {
                "plain INSERT": partial(run, PGQUEUE, "plain"),
                "INSERT into the queue": partial(run, PGQUEUE, "insert"),
                "pgqueue_enqueue": partial(run, PGQUEUE, "enqueue"),
                CHANNEL_ROW.name: partial(run, CHANNEL_ROW, "enqueue"),
            },
            tuple(Target(name, at_most=1.5) for name in ("INSERT into the queue", "pgqueue_enqueue")),
        )

    return [contest(1), contest(8)]


def _bulk(plan: Plan) -> list[Contest]:
    run = partial(bulk.bulk, plan.cluster, rows=plan.backlog)
    names = {
        "COPY into the plain table": bulk.copy_into("plain_message"),
        "COPY into the queue": bulk.copy_into("pgqueue_message"),
        "INSERT of 1,000 rows": bulk.insert_into("pgqueue_message"),
        "pgqueue_enqueue_many, 1,000 a call": bulk.call_enqueue_many,
    }
    return [
        Contest(
            f"enqueue {plan.backlog:,} messages in bulk, 1 client",
            "rows/s",
            "COPY into the plain table",
            {name: partial(run, load) for name, load in names.items()},
            tuple(Target(name, at_least=50_000, absolute=True) for name in list(names)[1:]),
        )
    ]


def _pinned(plan: Plan) -> list[Contest]:
    run = partial(pinned, plan.cluster, seconds=plan.long)
    cases = [(CHANNEL_ROW, 100, 1, False), (PGQUEUE, 1, 10, False), (PGQUEUE, 100, 10, False), (PGQUEUE, 100, 10, True)]
    cases += [(sketch, channels, 10, False) for sketch in plan.sketches for channels in (1, 100)]
    return [
        Contest(
            f"{design.name}, {OFFERED:,} messages/s for {plan.long:.0f} s, {channels} {'limited ' if limited else ''}"
            f"channels, 4 consumers, batch {batch}",
            "calls/s at the end",
            "xmin free",
            {
                "xmin free": partial(run, design, channels=channels, batch=batch, limited=limited, pin=False),
                "xmin pinned": partial(run, design, channels=channels, batch=batch, limited=limited, pin=True),
            },
            rounds=1,
        )
        for design, channels, batch, limited in cases
    ]


def _worker(plan: Plan) -> list[Contest]:
    messages = plan.backlog // 10
    run = partial(drain_by_worker, plan.cluster, messages=messages)
    return [
        Contest(
            f"one worker process, {messages:,} messages, handler without work, 16 channels",
            "messages/s",
            "outside a transaction",
            {
                "outside a transaction": partial(run, handler="benchmark.noop"),
                "atomic=True": partial(run, handler="benchmark.atomic_noop"),
                "async def": partial(run, handler="benchmark.async_noop"),
            },
        )
    ]


def _latency(plan: Plan) -> list[Contest]:
    messages = int(plan.seconds * 10)
    run = partial(idle_latency, plan.cluster)
    return [
        Contest(
            f"idle system, {messages:,} messages one after the other: median from commit to handler start",
            "µs",
            "waiting",
            {
                "waiting": partial(run, messages=messages, options=()),
                "waiting, one process": partial(run, messages=messages, options=("--processes", "0")),
                "always": partial(run, messages=messages, options=("--notify", "always")),
                # It waits for the next poll, half a second on average.
                "never": partial(run, messages=messages // 4, options=("--notify", "never")),
            },
            (Target("waiting", at_most=2_000, absolute=True),),
        )
    ]


def _notify(plan: Plan) -> list[Contest]:
    return [
        Contest(
            "8 producers one by one, one worker with 8 slots, handler without work, by NOTIFY",
            "completed/s",
            "waiting",
            {
                mode: partial(sustained, plan.cluster, seconds=plan.seconds, options=("--notify", mode))
                for mode in ("waiting", "always", "never")
            },
        )
    ]


WORKLOADS: dict[str, Callable[[Plan], list[Contest]]] = {
    "mixed": _mixed,
    "mixed-batch": _mixed_batch,
    "drain": _drain,
    "drain-single": _drain_single,
    "enqueue": _enqueue,
    "bulk": _bulk,
    "pinned": _pinned,
    "worker": _worker,
    "latency": _latency,
    "notify": _notify,
}
