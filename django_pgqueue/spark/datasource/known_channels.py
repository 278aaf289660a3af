"""Find the rows whose channel does not exist or is released, before they are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.spark.datasource.bad_rows import BadValueError

if TYPE_CHECKING:
    from django_pgqueue.spark.datasource.encoding import RowEncoder

# No name has this character in PostgreSQL.
BETWEEN = "\0"
SELECT = """
SELECT u.queue, u.channel, c.id IS NULL
FROM unnest(%s::text[], %s::text[]) AS u (queue, channel)
LEFT JOIN pgqueue_channel AS c ON c.queue = u.queue AND c.name = u.channel
WHERE c.id IS NULL AND NOT %s OR c.released_at IS NOT NULL
"""


class KnownChannels:
    """The channels that a task has asked the database about, each once. ``create``: unknown ones will be created."""

    def __init__(self, connection: psycopg.Connection[Any], *, create: bool) -> None:
        self.connection = connection
        self.create = create
        self.asked: set[str] = set()
        self.problems: dict[str, str] = {}

    def find_bad(self, encoder: RowEncoder, batch: pa.RecordBatch) -> dict[int, BadValueError]:
        """Return the rows of the batch whose channel cannot be used, by their index.

        A channel that all rows have by option is no row's fault: the enqueue at the end refuses it.
        """
        if not {"queue", "channel"} & {*encoder.columns}:
            return {}
        queues, channels = (encoder.values(batch, name, "default") for name in ("queue", "channel"))
        places = pc.binary_join_element_wise(queues, channels, BETWEEN)
        self._ask({*pc.unique(places).to_pylist()} - self.asked)
        if not self.problems:
            return {}
        found = pc.indices_nonzero(pc.is_in(places, pa.array([*self.problems], pa.string()))).to_pylist()
        return {index: BadValueError("channel", self.problems[places[index].as_py()]) for index in found}

    def _ask(self, places: set[str]) -> None:
        self.asked |= places
        # COPY refuses a name that has the character itself.
        names = [place.split(BETWEEN) for place in places if place.count(BETWEEN) == 1]
        if names:
            queues, channels = zip(*names, strict=True)
            for queue, channel, missing in self.connection.execute(SELECT, [[*queues], [*channels], self.create]):
                problem = "its queue has no such channel" if missing else "it is released"
                self.problems[f"{queue}{BETWEEN}{channel}"] = problem
