"""A tenant with long handlers beside one with short ones: what the second waits, what the first keeps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from random import Random

from psycopg.types.json import Jsonb

from tests.support.sessions import column, one

from .cluster import Cluster
from .contest import Contest, Target
from .design import PGQUEUE
from .measure import Figures, fresh, quantile
from .plan import Plan
from .worker import worker

SLOTS = 8
LONG_SECONDS = 10.0  # mean of A's handlers; each takes half to one and a half of it, so that they do not end together
SHORT_SECONDS = 0.01  # of B's handlers
EVERY_SECONDS = 1.0  # from one message of B to the next
WAIT = "B's wait, longest ms"
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "turns": {},
    "share": {"fairness": "share"},
    "share, max_share 0.75": {"fairness": "share", "max_share": 0.75},
}
# The handler's own time is left out. What waits still does so until now.
WAITS = """
SELECT extract(epoch FROM x.started_at - x.created_at)::float8 * 1000
FROM (
    SELECT a.created_at, a.archived_at - %s * interval '1 second' AS started_at
    FROM pgqueue_archived_message AS a WHERE a.channel = 'b'
    UNION ALL
    SELECT m.created_at, clock_timestamp()
    FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id WHERE c.name = 'b'
) AS x
ORDER BY 1
"""
# The sum of the seconds of A's handlers that ended in the window.
BUSY = """
SELECT coalesce(sum((a.payload ->> 'seconds')::float8), 0) FROM pgqueue_archived_message AS a
WHERE a.channel = 'a' AND a.archived_at BETWEEN to_timestamp(%s) AND to_timestamp(%s)
"""
CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"
ENQUEUE = "SELECT pgqueue_enqueue('benchmark.sleep', %s, %s)"


def capacity(cluster: Cluster, *, settings: Mapping[str, object], seconds: float) -> Figures:
    """Measure the mean wait of B's messages in milliseconds, and the slots that A's handlers keep busy.

    settings  of the queue, as in pgqueue_queue_set
    seconds   of the window, which begins when A has held the worker's slots for a while
    """
    chance = Random(1)
    with fresh(cluster, PGQUEUE, 1) as run:
        database = run.connection
        for name in ("a", "b"):
            database.execute("SELECT pgqueue_channel_set('default', %s)", [name])
        database.execute("SELECT pgqueue_queue_set('default', %s)", [Jsonb(dict(settings))])
        for _ in range(round(SLOTS * (seconds + 2 * LONG_SECONDS) / LONG_SECONDS * 2) + SLOTS):
            long = LONG_SECONDS * chance.uniform(0.5, 1.5)
            database.execute(ENQUEUE, [Jsonb({"seconds": long}), "a"])
        with worker(run, "--concurrency", str(SLOTS)):
            while not one(database, "SELECT count(*) FROM pgqueue_message WHERE status = 2"):
                time.sleep(0.05)
            time.sleep(1.5 * LONG_SECONDS)
            since = one(database, CLOCK)
            for number in range(round(seconds / EVERY_SECONDS)):
                time.sleep(max(0.0, since + number * EVERY_SECONDS - one(database, CLOCK)))
                database.execute(ENQUEUE, [Jsonb({"seconds": SHORT_SECONDS}), "b"])
            time.sleep(max(0.0, since + seconds - one(database, CLOCK)))
            until = one(database, CLOCK)
            waits = column(database, WAITS, SHORT_SECONDS)
            busy = one(database, BUSY, since, until)
    return Figures(
        sum(waits) / len(waits),
        remarks={"B's wait, p50 ms": quantile(waits, 0.5), WAIT: waits[-1], "A's busy slots": busy / (until - since)},
    )


def contests(plan: Plan) -> list[Contest]:
    """Return the contest: the same two tenants by turns, by share, and with slots that are kept free."""
    run = partial(capacity, plan.cluster, seconds=max(60.0, plan.seconds))
    kept = list(SETTINGS)[-1]
    return [
        Contest(
            f"{SLOTS} slots, A with endless handlers of {LONG_SECONDS:g} s, B with one of 10 ms each second",
            "ms that B waits",
            "turns",
            {name: partial(run, settings=settings) for name, settings in SETTINGS.items()},
            (Target(kept, at_most=100, absolute=True),),
        )
    ]
