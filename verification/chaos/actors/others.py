"""The keeper of the house, the operator, and the reader of the archive."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg

from verification.chaos.crowd import CROWD, EDITS
from verification.chaos.history import Call

from .actor import Actor, Stage
from .producer import SHARED

SEEN = """
WITH horizon AS (SELECT {horizon} AS h)
SELECT (SELECT h FROM horizon)::text, 'archived', id FROM pgqueue_archived_message
WHERE {column} >= %s::{kind} AND {column} < (SELECT h FROM horizon)
UNION ALL SELECT (SELECT h FROM horizon)::text, 'dead', id FROM pgqueue_dead_letter
WHERE {column} >= %s::{kind} AND {column} < (SELECT h FROM horizon)
UNION ALL SELECT (SELECT h FROM horizon)::text, '', 0
"""
BY_XID = SEEN.format(horizon="pg_snapshot_xmin(pg_current_snapshot())", column="xid", kind="xid8")
# The mistake that it is made to catch: ids become visible out of order.
BY_ID = SEEN.format(
    horizon="coalesce((SELECT max(id) + 1 FROM pgqueue_archived_message), 0)", column="id", kind="bigint"
)
CENSUS = """
WITH places AS MATERIALIZED (
    SELECT id, 'live' AS place FROM pgqueue_message
    UNION ALL SELECT id, 'archived' FROM pgqueue_archived_message
    UNION ALL SELECT id, 'dead' FROM pgqueue_dead_letter
),
present AS (SELECT id, id - row_number() OVER (ORDER BY id) AS island FROM (SELECT DISTINCT id FROM places) AS d)
SELECT
    (SELECT count(*) FROM places WHERE place = 'live'),
    ARRAY(SELECT id FROM places GROUP BY id HAVING count(*) > 1),
    ARRAY(SELECT ARRAY[min(id), max(id)] FROM present GROUP BY island ORDER BY 1)
"""


class Keeper(Actor):
    """Sweeps and ticks, where no worker does it."""

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(stage, name)
        self.pause = stage.options.get("keeper_pause", 0.05)

    def step(self) -> None:
        for statement in ("SELECT pgqueue_tick()", "SELECT * FROM pgqueue_sweep()"):
            call = self.recorder.invoke("keep")
            self.session.call(call, partial(self.keep, statement, call))

    def keep(self, statement: str, call: Call, session: psycopg.Connection[Any]) -> None:
        session.execute(statement)
        call.ok()


class Operator(Actor):
    """Redrives dead letters, edits limits, pauses and resumes. In the calm, all channels are open."""

    pause = 0.08

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(stage, name)
        self.pause = stage.options.get("operator_pause", self.pause)

    def step(self) -> None:
        if self.chance(0.5) or self.stage.calm.is_set():
            self.redrive()
        else:
            self.edit()
        if self.stage.calm.is_set():
            self.stage.stop.wait(0.3)

    def redrive(self) -> None:
        calm = self.stage.calm.is_set()
        call = self.recorder.invoke("redrive")

        def work(session: psycopg.Connection[Any]) -> None:
            # Some that were redriven before, too: they must be left out. In the calm none: there shall be an end.
            query = (
                "SELECT old_id, new_id, pgqueue_raise(refusal) FROM pgqueue_redrive(ARRAY("
                "SELECT id FROM pgqueue_dead_letter WHERE id % 3 = 0 ORDER BY random() LIMIT 20))"
            )
            call.ok(redriven=[] if calm else [row[:2] for row in session.execute(query).fetchall()])

        self.session.call(call, work)

    def edit(self) -> None:
        if self.stage.queue == CROWD:
            if "crowd" not in self.stage.options:
                self.set_queue(self.random.choice(EDITS))
            return
        edits: list[tuple[str, dict[str, Any]]] = [
            ("edited", {"max_concurrency": self.random.choice([1, 2, 4])}),
            ("pausing", {"paused_at": self.random.choice([None, "now"])}),
        ]
        if "queue_limit" not in self.stage.options:
            edits.append(("the queue", {"max_concurrency": self.random.choice([None, None, 8])}))
        if "shared_limit" not in self.stage.options:
            edits.append(("the shared limit", {"max_concurrency": self.random.choice([*[1, 2, 3, 4] * 3, None])}))
            edits.append(("the shared limit", {"max_cost": self.random.choice([5, 10, None, None])}))
            edits.append(("the shared limit", {"paused": self.random.choice([False, False, True])}))
        name, value = self.random.choice(edits)
        if name == "the queue":
            self.set_queue(value)
        elif name == "the shared limit":
            self.set_shared(value)
        elif name in self.stage.channels:
            self.set(name, value)

    def set(self, name: str, value: dict[str, Any]) -> None:
        call = self.recorder.invoke("channel_set", channel=name, **value)
        [(column, new)] = value.items()

        def update(session: psycopg.Connection[Any]) -> None:
            session.execute(f"UPDATE pgqueue_channel SET {column} = %s WHERE name = %s", (new, name))
            call.ok()

        self.session.call(call, update)

    def set_queue(self, value: dict[str, Any]) -> None:
        call = self.recorder.invoke("queue_set", **value)

        def change(session: psycopg.Connection[Any]) -> None:
            session.execute("SELECT pgqueue_queue_set(%s, %s)", (self.stage.queue, json.dumps(value)))
            call.ok()

        self.session.call(call, change)

    def set_shared(self, value: dict[str, Any]) -> None:
        call = self.recorder.invoke("limit_set", limit=SHARED, **value)

        def change(session: psycopg.Connection[Any]) -> None:
            if "paused" in value:
                verb = "pause" if value["paused"] else "resume"
                session.execute(f"SELECT pgqueue_limit_{verb}(%s)", (SHARED,))
            else:
                session.execute("SELECT pgqueue_limit_set(%s, %s)", (SHARED, json.dumps(value)))
            call.ok()

        self.session.call(call, change)


class Reader(Actor):
    """Reads archive and dead letters bit by bit, as the export does: by commit horizon. The larger, the rarer."""

    pause = 0.1

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(stage, name)
        self.query = BY_ID if stage.options.get("reader") == "by id" else BY_XID
        self.horizon = "0"

    def step(self) -> None:
        self.look(last=False)

    def look(self, *, last: bool) -> bool:
        call = self.recorder.invoke("read", last=last)
        began = time.monotonic()
        done = bool(self.session.call(call, lambda session: self.read(session, call)))
        self.pause = max(Reader.pause, 10 * (time.monotonic() - began))
        return done

    def read(self, session: psycopg.Connection[Any], call: Call) -> bool:
        rows = session.execute(self.query, (self.horizon, self.horizon)).fetchall()
        seen: dict[str, list[int]] = {"archived": [], "dead": []}
        for _, place, message in rows:
            if place:
                seen[place].append(message)
        self.horizon = rows[-1][0]
        call.ok(seen=seen, horizon=self.horizon)
        return True

    def end(self) -> None:
        at_last(lambda: self.look(last=True))
        super().end()


class Registrar(Actor):
    """Takes a census now and then: where everything is, in one statement's view. The larger it is, the rarer."""

    pause = 0.2

    def step(self) -> None:
        self.take_census(final=False)

    def take_census(self, *, final: bool) -> bool:
        call = self.recorder.invoke("census", final=final)
        began = time.monotonic()
        done = bool(self.session.call(call, lambda session: self.count(session, call)))
        self.pause = max(Registrar.pause, 20 * (time.monotonic() - began))
        return done

    def count(self, session: psycopg.Connection[Any], call: Call) -> bool:
        live, twice, ranges = session.execute(CENSUS).fetchone() or (0, [], [])
        call.ok(live=live, twice=twice, ranges=ranges)
        return True

    def end(self) -> None:
        at_last(lambda: self.take_census(final=True))
        super().end()


def at_last(step: Callable[[], bool]) -> None:
    """Once more, for the end; the server may have to be waited for."""
    for _ in range(100):
        if step():
            return
        time.sleep(0.1)
