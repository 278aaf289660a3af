"""The databases in which the verbs are called, and how each design calls them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.sessions import row_of
from verification.benchmarks.cluster import Cluster
from verification.benchmarks.design import CHANNEL_ROW, Design
from verification.benchmarks.measure import Run
from verification.benchmarks.situation import Situation

from . import loop

Spent = dict[str, float]  # µs a message by verb
Hook = Callable[[Run], None]

CHANNELS = (1, 1_000)
BATCH = 50
CALLS_OF_A_BATCH = 10  # for each call of a batch there are so many of one message
RESERVE = 2_000  # messages that are left when a loop ends
PAYLOAD = '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}'
INSERT = "INSERT INTO {table} (channel_id, handler, payload) VALUES ({first} + n % {channels}, 'noop', '{payload}')"


@dataclass(frozen=True, slots=True)
class Calls:
    """The verbs of a design in plpgsql. In braces: channels, payload, and the id of the first channel.

    `take` is a dequeue and its completion of one message, `take_many` of `BATCH`: None where a design cannot.
    """

    design: Design
    take: tuple[str, str]
    take_many: tuple[str, str] | None
    enqueue: dict[str, str]

    @property
    def name(self) -> str:
        return self.design.name


def of_ours(design: Design) -> Calls:
    take = (
        "SELECT array_agg(id) AS ids, array_agg(token) AS tokens INTO r "
        "FROM pgqueue_dequeue('default', {batch}, '60 s', 'cost')"
    )
    complete = "PERFORM count(*) FROM pgqueue_complete(r.ids, r.tokens)"
    return Calls(
        design,
        (take.replace("{batch}", "1"), complete),
        (take.replace("{batch}", str(BATCH)), complete),
        {
            "enqueue": "PERFORM id FROM pgqueue_enqueue('noop', '{payload}', 'c' || 1 + n % {channels})",
            "INSERT": INSERT.replace("{table}", "pgqueue_message"),
            "plain INSERT": INSERT.replace("{table}", "plain_message"),
        },
    )


ROW = Calls(
    CHANNEL_ROW,
    ("SELECT * INTO r FROM row_dequeue('60 s')", "PERFORM row_complete(r.id, r.lease_token)"),
    None,
    {"enqueue": "PERFORM row_enqueue('c' || 1 + n % {channels}, '{payload}')"},
)


def _nothing(run: Run) -> None: ...


def _stay_on_one_processor(run: Run) -> None:
    """Keep the session of a run where those of the others were: on another processor it may take half as long again."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(run.connection.info.backend_pid, {max(os.sched_getaffinity(0))})


@dataclass(frozen=True, slots=True)
class Station:
    """A fresh database of a design with `ready` messages in it, in which `loops` are run."""

    name: str
    calls: Calls
    channels: int
    ready: int
    loops: Callable[[Run], Spent]

    def visit(self, cluster: Cluster, before: Hook = _nothing, after: Hook = _nothing) -> Spent:
        """Run the loops; `before` and `after` are called around them, in their session."""
        situation = Situation(f"cost_{self.channels}_{self.ready}", self.channels, self.ready, strategy="WAL_LOG")
        with situation.fresh(cluster, self.calls.design) as run:
            if run.design.has("plain_table"):
                run.script("plain_table")
            _stay_on_one_processor(run)
            before(run)
            spent = self.loops(run)
            after(run)
            return spent


def one(calls: Calls, channels: int, turns: int) -> Station:
    """One message a call: dequeue and complete in turn, then each way to enqueue."""

    def loops(run: Run) -> Spent:
        spent = take(run, calls.take, turns)
        for verb, statement in _filled(calls.enqueue, run).items():
            spent |= loop.run(run.connection, {verb: statement}, turns)
        return spent

    return Station("one a call", calls, channels, loop.calls(turns) + RESERVE, loops)


def many(calls: Calls, channels: int, turns: int) -> Station:
    """Many messages a call: dequeue and complete in turn."""

    def loops(run: Run) -> Spent:
        assert calls.take_many is not None, "a design without large calls has no such station"
        return take(run, calls.take_many, turns, BATCH)

    return Station(f"{BATCH} a call", calls, channels, loop.calls(turns) * BATCH + RESERVE, loops)


def empty(calls: Calls, channels: int, turns: int) -> Station:
    """A dequeue that finds nothing, where each channel has had messages."""

    def loops(run: Run) -> Spent:
        take(run, calls.take, RESERVE)
        return loop.run(run.connection, {"empty dequeue": calls.take[0]}, turns)

    return Station("nothing there", calls, channels, loop.calls(RESERVE), loops)


def stations(everyone: list[Calls], turns: int) -> list[Station]:
    """Return what is measured in one round, with `turns` calls of each verb."""
    found = []
    for channels in CHANNELS:
        found += [one(calls, channels, turns) for calls in everyone]
        found += [many(calls, channels, turns // CALLS_OF_A_BATCH) for calls in everyone if calls.take_many]
        found += [empty(calls, channels, turns) for calls in everyone]
    return found


def _filled(verbs: dict[str, str], run: Run) -> dict[str, str]:
    for name, value in {"channels": run.channels, "first": _first_channel(run), "payload": PAYLOAD}.items():
        verbs = {verb: statement.replace(f"{{{name}}}", str(value)) for verb, statement in verbs.items()}
    return verbs


def _first_channel(run: Run) -> int:
    """Return the id of c1, which those of the others follow. Rows are inserted by id into our tables only."""
    if not run.design.has("plain_table"):
        return 1
    return row_of(run.connection.execute("SELECT id FROM pgqueue_channel WHERE name = 'c1'"))[0]


def take(run: Run, verbs: tuple[str, str], turns: int, messages: int = 1) -> Spent:
    """Dequeue and complete; every call must have found its messages."""
    before = run.sample().completed
    spent = loop.run(run.connection, dict(zip(("dequeue", "complete"), verbs, strict=True)), turns, messages)
    done, due = run.sample().completed - before, loop.calls(turns) * messages
    if done != due:
        raise RuntimeError(f"{run.design.name}: {done} of {due} messages were completed in the loop")
    return spent
