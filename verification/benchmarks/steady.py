"""The cost of a message while what waits stays as it is."""

from __future__ import annotations

from .cluster import Cluster
from .design import Design
from .measure import WARM_UP, Figures, costs
from .situation import Situation


def steady(cluster: Cluster, design: Design, situation: Situation, *, seconds: float, clients: int = 4) -> Figures:
    """Each client enqueues a message, takes the first of the line and completes it. Microseconds of dequeue and
    complete together, as the client sees them; the server's costs are those of all three."""
    with situation.fresh(cluster, design) as run:
        run.tick(WARM_UP + seconds + 1)
        run.clients("steady", clients=clients, seconds=WARM_UP).wait()
        before = run.sample()
        outcome = run.clients("steady", clients=clients, seconds=seconds, statements=True).wait()
        after = run.sample()
        took = {_verb(statement.text): statement.latency_ms * 1e3 for statement in outcome.statements}
        return Figures(
            took["dequeue"] + took["complete"],
            remarks={
                **{f"{verb} µs": value for verb, value in took.items()},
                **costs(before, after, after.completed - before.completed, "message"),
            },
        )


def _verb(statement: str) -> str:
    return next(verb for verb in ("enqueue", "dequeue", "complete") if f"_{verb}(" in statement)
