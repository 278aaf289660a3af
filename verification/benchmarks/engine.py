"""The engine of django_pgqueue/sql/engine beside the line of today: consumers of one message a call, with each kind of
limit. `python -m verification.benchmarks.engine`; figures are messages completed a second, contestants take turns."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import psycopg

from tests.support.paths import REPOSITORY
from tests.support.sessions import one
from verification.benchmarks import pgbench
from verification.benchmarks.cluster import Cluster, throw_away
from verification.benchmarks.design import PGQUEUE

FILES = sorted((REPOSITORY / "django_pgqueue" / "sql" / "engine").glob("*.sql"))
CHANNELS, MESSAGES, FAR = 16, 40_000, 100_000
# What limits the messages: FAR is never reached.
CASES = ("none", "channel", "queue", "shared", "rate", "share", "keys", "full")
LIMITS: dict[str, dict[str, object]] = {
    "shared": {"max_concurrency": FAR},
    "full": {"max_concurrency": 4},
    "rate": {"release_interval": "1 us", "release_burst": FAR},
}
DATABASE = "engine_contest"
CONSUME = """\
SELECT count(*) AS taken, array_agg(id) AS ids, array_agg(token) AS tokens
FROM pgqueue_dequeue('default', 1, '60 s', 'benchmark'{flushes}) \\gset
\\if :taken = 0
\\sleep 1 ms
\\else
{flush}SELECT count(*) FROM pgqueue_complete(:ids, :tokens);
\\endif
"""
TICK = "SELECT pgqueue_tick();\n\\sleep 200 ms\n"
SHAPE = "n.id, 'noop', %(limits)s, CASE WHEN %(case)s = 'keys' THEN 'key ' || n.n %% 1000 END"


def of_the_engine(cluster: Cluster, case: str) -> list[int] | None:
    """Make a database with the new engine; return the ids of the shared limits of its messages."""
    cluster.create_database(DATABASE)
    with cluster.connect(DATABASE) as session:
        for file in FILES:
            session.execute(file.read_text())
        most = FAR if case == "queue" else None
        session.execute("SELECT pgqueue_queue_make('default', %s, %s)", ("share" if case == "share" else "turns", most))
        most = FAR if case == "channel" else None
        session.execute(
            "SELECT pgqueue_channel_make('default', 'c' || n, 1, %s) FROM generate_series(1, %s) AS n", (most, CHANNELS)
        )
        if case in ("shared", "full"):
            return [one(session, "SELECT pgqueue_meter_make('limit', true, %s)", 4 if case == "full" else FAR)]
        if case == "rate":
            return [one(session, "SELECT pgqueue_meter_make('limit', true, NULL, NULL, '1 us', %s)", FAR)]
    return None


def of_today(cluster: Cluster, case: str) -> list[int] | None:
    """Make a database with the line of today; return the ids of the shared limits of its messages."""
    cluster.create_database(DATABASE, PGQUEUE.template)
    with cluster.connect(DATABASE) as session:
        most = FAR if case == "channel" else None
        session.execute(
            "INSERT INTO pgqueue_channel (queue, name, max_concurrency)"
            " SELECT 'default', 'c' || n, %s::int FROM generate_series(1, %s) AS n",
            (most, CHANNELS),
        )
        if case in ("queue", "share"):
            of_queue = {"max_concurrency": FAR} if case == "queue" else {"fairness": "share"}
            session.execute("SELECT pgqueue_queue_set('default', %s)", (json.dumps(of_queue),))
        settings = LIMITS.get(case)
        if settings is not None:
            return [one(session, "SELECT id FROM pgqueue_limit_set('limit', %s)", json.dumps(settings))]
    return None


def contest(
    cluster: Cluster, case: str, prepare: Callable[..., list[int] | None], seconds: int, clients: int, flushes: bool
) -> float:
    """Return how many messages a second `clients` consumers complete."""
    limits = prepare(cluster, case)
    with cluster.connect(DATABASE) as session, tempfile.TemporaryDirectory() as folder:
        session.execute(
            f"INSERT INTO pgqueue_message (channel_id, handler, limits, order_key) SELECT {SHAPE} FROM ("
            " SELECT c.id, n FROM generate_series(1, %(messages)s) AS n"
            " JOIN pgqueue_channel AS c ON c.name = 'c' || 1 + n %% %(channels)s) AS n (id, n)",
            {"limits": limits, "case": case, "messages": MESSAGES, "channels": CHANNELS},
        )
        session.execute("VACUUM ANALYZE")
        session.execute("CHECKPOINT")
        for _ in range(3):
            session.execute("SELECT pgqueue_tick()")
        consume, tick = Path(folder, "consume.sql"), Path(folder, "tick.sql")
        consume.write_text(
            CONSUME.format(
                flushes=", p_flushes => true" if flushes else "", flush="SELECT pgqueue_flush();\n" if flushes else ""
            )
        )
        tick.write_text(TICK)
        ticker = pgbench.start(cluster, DATABASE, tick, clients=1, seconds=seconds)
        pgbench.start(cluster, DATABASE, consume, clients=clients, seconds=seconds).wait()
        ticker.wait()
        return completed(session) / seconds


def completed(session: psycopg.Connection) -> int:
    return one(session, "SELECT count(*) FROM pgqueue_archived_message")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m verification.benchmarks.engine", description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES), help=f"of: {', '.join(CASES)}")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=8)
    chosen = parser.parse_args()
    contestants = {
        "today": (of_today, False),
        "engine": (of_the_engine, False),
        "engine, flushes": (of_the_engine, True),
    }
    figures: dict[tuple[str, str], list[float]] = defaultdict(list)
    with throw_away() as cluster:
        PGQUEUE.prepare(cluster)
        for _ in range(chosen.rounds):
            for case in chosen.cases:
                for name, (prepare, flushes) in contestants.items():
                    figures[case, name].append(contest(cluster, case, prepare, chosen.seconds, chosen.clients, flushes))
    print(f"| {chosen.clients} consumers | {' | '.join(contestants)} |\n|---|{'---|' * len(contestants)}")
    for case in chosen.cases:
        cells = " | ".join(f"{statistics.median(figures[case, name]):,.0f}" for name in contestants)
        print(f"| {case} | {cells} |")


if __name__ == "__main__":
    main()
