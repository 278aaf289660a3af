"""The contests: who is measured at what, against whom, and what the project promises."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from . import bulk, capacity, flaky, from_python, growth, short_line, sparse
from .contest import Contest, Target
from .design import CHANNEL_ROW, PGQUEUE, PGQUEUE_UNLOGGED, RAW_FLOOR
from .latency import idle_latency, sustained
from .measure import Figures, drain, mixed, single
from .plan import DESIGNS, Plan
from .worker import CLIENT, drain_by_worker


def _mixed(plan: Plan) -> list[Contest]:
    def contest(channels: int, at_least: float) -> Contest:
        return Contest(
            f"8 producers + 8 consumers, one message per call, {channels:,} channels",
            "completed/s",
            CHANNEL_ROW.name,
            {
                design.name: partial(mixed, plan.cluster, design, channels=channels, seconds=plan.seconds)
                for design in DESIGNS
            },
            (Target(PGQUEUE.name, at_least=at_least),),
        )

    return [contest(1, 6.0), contest(1_000, 1.5)]


def _drain(plan: Plan) -> list[Contest]:
    def contest(channels: int, at_least: float) -> Contest:
        run = partial(
            drain, channels=channels, backlog=plan.backlog, batch=50, clients=4, seconds=max(20.0, plan.seconds)
        )
        return Contest(
            f"drain of {plan.backlog:,}, batch 50, 4 consumers, {channels:,} channels",
            "messages/s",
            RAW_FLOOR.name,
            {design.name: partial(run, plan.cluster, design) for design in (RAW_FLOOR, PGQUEUE, PGQUEUE_UNLOGGED)},
            (Target(PGQUEUE.name, at_least=at_least),),
        )

    return [contest(1, 0.75), contest(1_000, 0.5)]


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
                "pgqueue_enqueue, unlogged": partial(run, PGQUEUE_UNLOGGED, "enqueue"),
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
            tuple(Target(name, at_least=100_000, absolute=True) for name in list(names)[1:]),
        )
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
            (Target("outside a transaction", at_most=40, remark=CLIENT),),
        )
    ]


def _queue_limits(plan: Plan) -> list[Contest]:
    limits = {
        "no limit": None,
        "max_concurrency": "queue_limit",
        "share": "queue_share",
        "shared limit": "shared_limit",
        "shared rate": "shared_rate",
        "order keys": "order_keys",
        "keys of four": "order_keys_of_four",
    }
    full = {"no limit": None, "shared limit of 4": "shared_limit_of_four"}
    by_worker = partial(drain_by_worker, plan.cluster, messages=plan.backlog // 10, handler="benchmark.noop")
    by_calls = partial(
        drain, plan.cluster, PGQUEUE, channels=16, backlog=plan.backlog // 4, seconds=plan.seconds, batch=1
    )

    def contest(title: str, run: Callable[..., Figures], limits: dict[str, str | None] = limits) -> Contest:
        return Contest(
            f"{title}, by a limit that is {'always full' if limits is full else 'never reached'}",
            "messages/s", "no limit", {name: partial(run, limits=script) for name, script in limits.items()},
        )  # fmt: skip

    return [
        contest("one worker process", by_worker),
        contest("one message per call, one consumer", partial(by_calls, clients=1)),
        contest("one message per call, 8 consumers", partial(by_calls, clients=8)),
        contest("one worker process", by_worker, full),
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
    # It holds back those who enqueue: a commit that notifies waits for the one before it.
    return [
        Contest(
            "16 producers one by one, one worker with 8 slots, handler without work, by NOTIFY",
            "enqueued/s",
            "never",
            {
                mode: partial(sustained, plan.cluster, seconds=plan.seconds, options=("--notify", mode))
                for mode in ("never", "waiting", "always")
            },
            (Target("waiting", at_least=0.9),),
        )
    ]


SPEED: dict[str, Callable[[Plan], list[Contest]]] = {
    "mixed": _mixed,
    "drain": _drain,
    "short-line": short_line.contests,
    "sparse": sparse.contests,
    "capacity": capacity.contests,
    "flaky": flaky.contests,
    "enqueue": _enqueue,
    "bulk": _bulk,
    "from-python": from_python.contests,
    "worker": _worker,
    "queue-limits": _queue_limits,
    "latency": _latency,
    "notify": _notify,
}
# The workloads of each name on the command line; the first group is the default.
GROUPS = {"speed": SPEED, "growth": growth.WORKLOADS}
WORKLOADS = {name: workload for group in GROUPS.values() for name, workload in group.items()}
