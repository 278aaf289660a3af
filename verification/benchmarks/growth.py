"""Contests about growth in production: other work on the server must not pay for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from . import beside
from .contest import Contest, Target
from .design import CHANNEL_ROW, PGQUEUE, RAW_FLOOR
from .load import Beside, Load, keep_pace, peak
from .measure import Figures, Run, drain, mixed
from .plan import DESIGNS, Plan
from .situation import Situation, at_limits, script
from .spark.database import fill_archive
from .steady import steady
from .writes import writes

BACKLOG = 10_000  # what waits while something else grows
FLIP = 20  # messages that a channel gets at once when it is empty


def _steady(plan: Plan, title: str, at_most: float, situations: dict[str, Situation]) -> Contest:
    """The first situation is the baseline."""
    baseline, *others = situations
    return Contest(
        f"dequeue + complete, 4 clients, {title}",
        "µs",
        baseline,
        {
            name: partial(steady, plan.cluster, PGQUEUE, situation, seconds=plan.seconds)
            for name, situation in situations.items()
        },
        tuple(Target(name, at_most=at_most) for name in others),
    )


def backlog(plan: Plan) -> list[Contest]:
    sizes = (plan.sizes.little, plan.sizes.ready)
    situations = {f"{ready:,} ready": Situation(f"ready_{ready}", ready=ready) for ready in sizes}
    return [_steady(plan, "by backlog", 1.2, situations)]


def channels(plan: Plan) -> list[Contest]:
    ready = 2 * plan.sizes.active
    active = {
        f"{count:,} active channel{'s' if count > 1 else ''}": Situation(f"active_{count}", count, ready)
        for count in (1, plan.sizes.active)
    }
    limits, scheduled = plan.sizes.at_limit, plan.sizes.scheduled
    later = script("schedule", messages=scheduled, channels=100)
    beside_them = {
        "nothing else": Situation("alone", 100, BACKLOG),
        f"{limits:,} channels at a limit": Situation("at_limits", 100, BACKLOG, at_limits(limits)),
        f"{scheduled:,} scheduled messages": Situation("scheduled", 100, BACKLOG, later),
    }
    return [
        _steady(plan, f"{ready:,} messages on", 1.5, active),
        _steady(plan, "100 channels, beside", 1.1, beside_them),
    ]


def limits(plan: Plan) -> list[Contest]:
    count = plan.sizes.limited
    drained = partial(
        drain, plan.cluster, PGQUEUE, backlog=plan.backlog, batch=50, clients=4, seconds=max(20.0, plan.seconds)
    )
    works = {
        "8 producers + 8 consumers, one message per call": partial(mixed, plan.cluster, PGQUEUE, seconds=plan.seconds),
        f"drain of {plan.backlog:,}, batch 50, 4 consumers": drained,
    }
    return [
        Contest(
            f"{work}, {count:,} channels with limits that never hold",
            "messages/s",
            "off",
            {"off": partial(run, channels=count), "on": partial(run, channels=count, limits="limit_high")},
            (Target("on", at_least=0.9),),
        )
        for work, run in works.items()
    ]


def pinned(plan: Plan) -> list[Contest]:
    free, limited = Situation("idle_100", 100), Situation("limited_100", 100, prepare=script("limit"))
    loads = {
        "1 channel": Load(PGQUEUE, Situation("idle_1")),
        "100 channels": Load(PGQUEUE, free),
        "100 limited channels": Load(PGQUEUE, limited),
        f"1,000 channels that get {FLIP} messages and run empty": Load(
            PGQUEUE, Situation("idle_1000", 1_000), script="burst", burst=FLIP
        ),
        "100 channels of channel_row": Load(CHANNEL_ROW, free, batch=1),
    }
    return [
        _under_load(plan, title, load, {"xmin free": beside.nothing, "xmin pinned": beside.snapshot})
        for title, load in loads.items()
    ]


def requests(plan: Plan) -> list[Contest]:
    load = Load(PGQUEUE, Situation("idle_100", 100))
    title = f"100 channels, {beside.REQUESTS} requests that enqueue and commit {beside.REQUEST_SECONDS:g} s later"
    return [_under_load(plan, title, load, {"alone": beside.nothing, "requests": beside.requests})]


def dump(plan: Plan) -> list[Contest]:
    return [_read_beside(plan, "pg_dump", beside.dump)]


def export(plan: Plan) -> list[Contest]:
    return [_read_beside(plan, "export", beside.export)]


def _read_beside(plan: Plan, name: str, reader: Beside) -> Contest:
    rows = plan.sizes.archived
    load = Load(PGQUEUE, Situation(f"archived_{rows}", 100, prepare=partial(_archive, rows)))
    title = f"100 channels, {rows:,} rows in the archive, {name} again and again"
    return _under_load(plan, title, load, {"alone": beside.nothing, name: reader})


def _archive(rows: int, run: Run) -> None:
    fill_archive(run.connection, rows)


def _under_load(plan: Plan, title: str, load: Load, what: dict[str, Beside]) -> Contest:
    """The first is the baseline; the others have the targets, unless the design is not ours."""

    @cache
    def half_of_the_peak() -> float:
        return peak(plan.cluster, load) / 2

    def run(along: Beside) -> Figures:
        return keep_pace(plan.cluster, load, rate=half_of_the_peak(), seconds=plan.long, beside=along)

    baseline, *others = what
    targets = [
        target
        for name in others
        if load.design is PGQUEUE
        for target in (
            Target(name, at_least=0.9, remark="throughput to start"),
            Target(name, at_most=2, remark="p99 to start"),
        )
    ]
    return Contest(
        f"half of the peak rate for {plan.long:.0f} s, {title}",
        "completed/s at the end",
        baseline,
        {name: partial(run, along) for name, along in what.items()},
        tuple(targets),
        rounds=1,
    )


def written(plan: Plan) -> list[Contest]:
    def contest(situation: Situation) -> Contest:
        waiting = f"{situation.ready:,} waiting" if situation.ready else "nothing waiting"
        places = f"{situation.channels:,} channel{'s' if situation.channels > 1 else ''}"
        return Contest(
            f"what a message writes, {places}, {waiting}",
            "WAL bytes",
            RAW_FLOOR.name,
            {design.name: partial(writes, plan.cluster, design, situation, seconds=plan.seconds) for design in DESIGNS},
        )

    return [
        contest(Situation(f"{channels}_channels_{ready}", channels, ready))
        for channels, ready in ((1, 0), (1, BACKLOG), (1_000, BACKLOG))
    ]


WORKLOADS: dict[str, Callable[[Plan], list[Contest]]] = {
    "backlog": backlog,
    "channels": channels,
    "limits": limits,
    "pinned": pinned,
    "requests": requests,
    "dump": dump,
    "export": export,
    "writes": written,
}
