"""A transaction that pins the xmin horizon, as a dump or a long report does: do the calls get slower and slower?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .cluster import Cluster
from .design import Design
from .measure import Figures, Run, fresh

OFFERED = 1_500  # messages per second, well within what every design can do at first
CONSUMERS = 4
WINDOW = 5  # seconds


@contextmanager
def snapshot_held(run: Run) -> Iterator[None]:
    with run.cluster.connect(run.database) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM pg_class")
        yield
        connection.execute("ROLLBACK")


def pinned(
    cluster: Cluster, design: Design, *, channels: int, batch: int, seconds: float, pin: bool, limited: bool = False
) -> Figures:
    """Dequeue calls per second in the last window, at a fixed rate of messages."""
    with fresh(cluster, design, channels) as run:
        if limited:
            design.run_script(run.connection, "limit")
        run.checkpoint()
        if pin:
            run.stack.enter_context(snapshot_held(run))
        run.tick(seconds)
        producers = run.clients("enqueue", clients=8, seconds=seconds, rate=OFFERED)
        consumers = run.clients("consume", clients=CONSUMERS, seconds=seconds, batch=batch, window=WINDOW)
        windows = consumers.wait().windows
        producers.wait()
        end = run.sample()
        return Figures(
            windows[-1].tps,
            series={
                "calls/s": tuple(window.tps for window in windows),
                "ms per call": tuple(window.latency_ms for window in windows),
            },
            remarks={"left behind": end.enqueued - end.completed},
        )
