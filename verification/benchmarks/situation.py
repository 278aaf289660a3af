"""The content of a database before the clock starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from .cluster import Cluster
from .design import Design
from .measure import Run, fresh, opened

Prepare = Callable[[Run], None]
HELD = "SELECT id FROM pgqueue_dequeue('default', 1000, '1 day', 'held')"


@dataclass(frozen=True, slots=True)
class Situation:
    """Made once, as a template that every run copies: `prepare`, then `ready` messages on the channels that the
    clients use. The name is part of the template's. `strategy`: how it is copied; WAL_LOG leaves the copy in memory."""

    name: str
    channels: int = 1
    ready: int = 0
    prepare: Prepare | None = None
    strategy: str = "FILE_COPY"

    @contextmanager
    def fresh(self, cluster: Cluster, design: Design) -> Iterator[Run]:
        database = f"run_{design.name}"
        cluster.create_database(database, self._template(cluster, design), strategy=self.strategy)
        with opened(cluster, design, database, self.channels) as run:
            run.checkpoint()
            yield run

    def _template(self, cluster: Cluster, design: Design) -> str:
        template = f"{design.name}_{self.name}"
        if not cluster.has_database(template):
            with fresh(cluster, design, self.channels) as run:
                if self.prepare:
                    self.prepare(run)
                run.fill(self.ready)
                run.settle()
            # Under this name there is only one that is complete.
            cluster.rename_database(run.database, template)
        return template


def script(name: str, **parameters: int) -> Prepare:
    """To prepare by one of the design's scripts."""
    return partial(_script, name, parameters)


def _script(name: str, parameters: dict[str, int], run: Run) -> None:
    run.script(name, **parameters)


def at_limits(channels: int) -> Prepare:
    """More channels, each with a message under a lease and one that its limit holds back."""
    return partial(_at_limits, channels)


def _at_limits(channels: int, run: Run) -> None:
    run.script("at_limit", channels=channels)
    run.settle()
    held = 0
    while taken := len(run.connection.execute(HELD).fetchall()):
        held += taken
    if held != channels:
        raise RuntimeError(f"{held:,} messages were given out on {channels:,} channels that may have one each")
