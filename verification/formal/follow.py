"""Has a server done what the model may do? Each commit of a recorded history must be a step of specs/Lease.tla."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from verification.chaos.history import History

from .channels import channels
from .models import LEASE
from .tlc import Configuration, ModelError, check, value
from .transcribe import Start, Step, Trace, lives

# Commits of one run of TLC: it reads them as a module.
TOGETHER = 5_000
REACHED = re.compile(r'^<<"reached", (\d+), (\d+)>>', re.MULTILINE)
MODULE = """---- MODULE Recorded ----
EXTENDS LeaseTrace
{histories}
Recorded == {names}
====
"""


@dataclass(slots=True)
class Followed:
    """``lives``: of messages, of which many are alike (``shapes``); ``windows``: parts of channels with a limit."""

    lives: int = 0
    shapes: int = 0
    windows: int = 0
    commits: int = 0
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        what = (
            f"{self.lives:,} messages of {self.shapes:,} kinds, {self.windows:,} parts of channels, "
            f"{self.commits:,} commits"
        )
        state = f"{len(self.refused)} REFUSED" if self.refused else "all are behaviours of the model"
        return "\n".join([f"Lease model: {what}: {state}", *(f"- {text}" for text in self.refused)])


def follow(history: History) -> Followed:
    """Raises ModelError when TLC cannot say."""
    followed = Followed()
    shapes: Counter[Trace] = Counter()
    for _, trace in lives(history):
        shapes[trace] += 1
        followed.commits += len(trace.steps)
    followed.lives, followed.shapes = shapes.total(), len(shapes)
    for trace, reached in furthest(shapes):
        also = f", and {shapes[trace] - 1} like it" if shapes[trace] > 1 else ""
        followed.refused.append(f"message {trace.messages[0]}{also}: {stuck(trace, reached)}")
    windows = list(channels(history))
    followed.windows = len(windows)
    names = {trace: name for name, trace in windows}
    for limit in sorted({trace.limit for _, trace in windows}):
        for trace, reached in furthest([trace for _, trace in windows if trace.limit == limit]):
            followed.refused.append(f'channel "{names[trace]}": {stuck(trace, reached)}')
    return followed


def stuck(trace: Trace, reached: int) -> str:
    step = trace.steps[reached - 1]
    ends = "".join(f", {outcome} with token {token}" for outcome, token in step.ends)
    late = "; the lease had expired" if step.late else ""
    return (
        f"commit {reached} of {len(trace.steps)} (message {trace.messages[step.message - 1]}: {step.status}, attempt "
        f"{step.attempts}, token {step.token}{ends}{late}) is no step of the model"
    )


def furthest(traces: Iterable[Trace]) -> Iterator[tuple[Trace, int]]:
    """Those that are no behaviours, and the first commit that is no step."""
    for part in parts(traces):
        output = check(configuration(part)).output
        reached: Counter[int] = Counter()
        for history, position in REACHED.findall(output):
            reached[int(history)] = max(reached[int(history)], int(position))
        if len(reached) != len(part):
            raise ModelError(f"TLC reported {len(reached)} of {len(part)} histories\n{output[-4000:]}")
        for place, trace in enumerate(part, 1):
            if reached[place] <= len(trace.steps):
                yield trace, reached[place]


def parts(traces: Iterable[Trace]) -> Iterator[list[Trace]]:
    part: list[Trace] = []
    steps = 0
    for trace in traces:
        part.append(trace)
        steps += len(trace.steps)
        if steps >= TOGETHER:
            yield part
            part, steps = [], 0
    if part:
        yield part


def configuration(traces: list[Trace]) -> Configuration:
    messages = max(len(trace.rows) for trace in traces)
    workers = max(1, *(len(trace.holders) for trace in traces))
    constants = {
        **LEASE, "Messages": numbers(messages), "Workers": numbers(workers), "Cancels": True, "MaxDefers": 1_000_000,
        "Limit": traces[0].limit, "Histories": "<- Recorded",
    }  # fmt: skip
    histories = "\n".join(f"H{place} == {as_tla(trace, messages, workers)}" for place, trace in enumerate(traces, 1))
    names = listed(f"H{place}" for place in range(1, len(traces) + 1))
    text = MODULE.format(histories=histories, names=names)
    return Configuration("Recorded", constants, "TraceSpec", constraint="Tell", modules={"Recorded": text})


def numbers(count: int) -> str:
    return "{" + ", ".join(map(str, range(1, count + 1))) + "}"


def as_tla(trace: Trace, messages: int, workers: int) -> str:
    rows = [*trace.rows, *[Start()] * (messages - len(trace.rows))]
    holders = [*trace.holders, *[0] * (workers - len(trace.holders))]
    return record(rows=listed(map(row, rows)), holders=listed(holders), events=listed(map(event, trace.steps)))


def row(start: Start) -> str:
    return record(
        status=f'"{start.status}"', attempts=start.attempts, max=start.max_attempts, token=start.token
    )  # fmt: skip


def event(step: Step) -> str:
    ends = listed(listed([f'"{outcome}"', token]) for outcome, token in step.ends)
    return record(
        message=step.message, status=f'"{step.status}"', attempts=step.attempts, token=step.token,
        settled=step.settled, ends=ends, by=step.by, late=value(step.late),
    )  # fmt: skip


def record(**fields: object) -> str:
    return "[" + ", ".join(f"{name} |-> {given}" for name, given in fields.items()) + "]"


def listed(items: Iterable[object]) -> str:
    return f"<<{', '.join(map(str, items))}>>"
