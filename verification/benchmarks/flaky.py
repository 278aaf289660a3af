"""Measure what a breaker saves an HTTP server that is down for a while, and the messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from psycopg.types.json import Jsonb

from tests.support.sessions import one

from .cluster import Cluster
from .contest import Contest, Target
from .design import PGQUEUE
from .measure import Figures, fresh
from .plan import Plan
from .worker import worker

SLOTS = 8
EVERY_SECONDS = 0.05  # from one message to the next
QUIET_SECONDS = 5.0  # before the outage and after it
ENQUEUE = "SELECT pgqueue_enqueue(%s, %s)"
HANDLER = "benchmark.call"
BREAKER = {"failures": 5, "within": "1 minute", "pause": "2 seconds"}
# An attempt that failed is one that was used up.
FAILED = """
SELECT coalesce(sum(jsonb_array_length(x.errors)), 0) FROM (
    SELECT errors FROM pgqueue_message UNION ALL
    SELECT errors FROM pgqueue_archived_message UNION ALL
    SELECT errors FROM pgqueue_dead_letter
) AS x
"""
WAITING = "SELECT count(*) FROM pgqueue_message"
DEAD = "SELECT count(*) FROM pgqueue_dead_letter"
PATIENCE_SECONDS = 120.0


class Flaky(ThreadingHTTPServer):
    """Answer 200, and 503 while it is down. ``calls``: how many came while it was up, and while it was down."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.is_down = False
        self.calls = {False: 0, True: 0}
        self.counting = threading.Lock()

    @property
    def url(self) -> str:
        """Return the address of the server."""
        return f"http://127.0.0.1:{self.server_port}/"


class Answer(BaseHTTPRequestHandler):
    server: Flaky

    def do_POST(self) -> None:
        """Count the call, and answer by the state of the server."""
        down = self.server.is_down
        with self.server.counting:
            self.server.calls[down] += 1
        self.send_response(503 if down else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  (its name in the base class)
        """Stay silent."""


@contextmanager
def flaky_server() -> Iterator[Flaky]:
    """Run the server in a thread."""
    with Flaky() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def outage(cluster: Cluster, *, breaker: dict[str, object] | None, seconds: float) -> Figures:
    """Count the calls that a server gets while it is down, and the attempts and messages that this costs.

    breaker  of the handler that calls the server. It is set here, after the worker has started, and not declared: a
             declared one would be in the database of each benchmark
    seconds  that it is down
    """
    with fresh(cluster, PGQUEUE, 1) as run, flaky_server() as server:
        database = run.connection
        database.execute("SELECT pgqueue_channel_set('default', 'default')")
        with worker(run, "--concurrency", str(SLOTS), PGQUEUE_SILENT="yes"):
            database.execute(ENQUEUE, [HANDLER, Jsonb({"url": server.url})])
            while not server.calls[False]:
                time.sleep(0.05)
            if breaker:
                database.execute("SELECT pgqueue_breaker_set(%s, %s)", [HANDLER, Jsonb(breaker)])
            began = time.monotonic()
            for number in range(round((seconds + 2 * QUIET_SECONDS) / EVERY_SECONDS)):
                at = number * EVERY_SECONDS
                time.sleep(max(0.0, began + at - time.monotonic()))
                server.is_down = QUIET_SECONDS <= at < QUIET_SECONDS + seconds
                database.execute(ENQUEUE, [HANDLER, Jsonb({"url": server.url})])
            ended = time.monotonic()
            while one(database, WAITING) and time.monotonic() < ended + PATIENCE_SECONDS:
                time.sleep(0.1)
            late = time.monotonic() - ended
        return Figures(
            server.calls[True],
            remarks={
                "completed while the server is up": server.calls[False],
                "attempts used up": one(database, FAILED),
                "dead letters": one(database, DEAD),
                "s until all were done": late,
            },
        )


def contests(plan: Plan) -> list[Contest]:
    """Return the contest: the same outage without and with a breaker."""
    seconds = max(30.0, plan.seconds)
    return [
        Contest(
            f"an HTTP server that is down for {seconds:g} s, {1 / EVERY_SECONDS:g} messages a second",
            "calls while it is down",
            "without",
            {
                name: partial(outage, plan.cluster, breaker=breaker, seconds=seconds)
                for name, breaker in {"without": None, "with a breaker": BREAKER}.items()
            },
            (Target("with a breaker", at_most=0.1),),
        )
    ]
