"""The messages that a stream has claimed, as the database remembers them, and the thread that extends their leases."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django_pgqueue.spark.datasource.options import StreamOptions
from django_pgqueue.spark.datasource.staging import refusals_as_pipeline_errors
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import SourceLost

# The number of claims, in 0.3 s altogether, before a batch is empty while other consumers hold the messages.
CLAIM_TRIES = 8
CLAIM_PAUSE_SECONDS = 0.0015


@dataclass(frozen=True, slots=True)
class Claimed:
    """The newest claim of a stream. ``batch``: the newest batch with messages; ``messages``: how many it has."""

    batch: int
    messages: int


class Claims:
    """The claims of a stream that this process has opened.

    A process that opens the stream later takes it over; calls here then raise PipelineError.
    """

    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        (self.owner, self.settled) = self._call(
            "SELECT owner, settled FROM pgqueue_stream_open(%s, %s, %s)",
            [options.stream, options.queue, options.channel],
        )

    def check(self, after: int) -> None:
        """Check that the batches after ``after`` can be given again. Raises PipelineError when they are settled."""
        if after < self.settled:
            raise PipelineError(
                f'The stream "{self.options.stream}" has settled batch {self.settled}, its checkpoint ends at batch '
                f"{after}: it is older than the queue, or another query's. Start with a new checkpoint."
            )

    def claim(self, after: int, limit: int) -> Claimed:
        """Settle the batches up to ``after``, and lease the next one. Raises PipelineError."""
        for tries in range(CLAIM_TRIES):
            batch, messages, lost, contended = self._call(
                "SELECT batch, messages, lost, contended "
                "FROM pgqueue_stream_claim(%s, %s, %s, %s, make_interval(secs => %s), %s)",
                [
                    self.options.stream,
                    self.owner,
                    after,
                    limit,
                    self.options.lease,
                    f"spark stream {self.options.stream}",
                ],
            )
            self.warn_of_lost(lost, "were processed here, but also delivered to another consumer")
            if not contended:
                break
            time.sleep(CLAIM_PAUSE_SECONDS * 2**tries * random.uniform(0.5, 1.0))
        return Claimed(batch, messages)

    def extend(self) -> int:
        """Extend all leases of the stream. Returns how many. Raises PipelineError."""
        held: int
        held, lost = self._call(
            "SELECT held, lost FROM pgqueue_stream_extend(%s, %s, make_interval(secs => %s))",
            [self.options.stream, self.owner, self.options.lease],
        )
        self.warn_of_lost(lost, "are delivered to another consumer")
        return held

    def bounds(self, after: int, upto: int) -> list[tuple[int, int]]:
        """Return the first and last message id of each part of these batches; one task reads one part."""
        with self.options.source.connect() as connection, self.options.source.errors():
            rows = connection.execute(
                "SELECT min(n.message_id), max(n.message_id) FROM ("
                " SELECT c.message_id, ntile(%s) OVER (ORDER BY c.message_id) AS part FROM pgqueue_stream_claim AS c"
                " WHERE c.stream = %s AND c.batch > %s AND c.batch <= %s) AS n GROUP BY n.part ORDER BY n.part",
                [self.options.partitions, self.options.stream, after, upto],
            )
            return rows.fetchall()

    def waiting(self) -> int:
        """Return how many messages could be delivered now."""
        count: int
        (count,) = self._call(
            "SELECT count(*) FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id"
            " WHERE c.queue = %s AND (%s::text IS NULL OR c.name = %s)"
            " AND (m.status = 1 OR m.status = 3 AND m.waits_for IS NULL"
            " AND m.dequeue_at <= clock_timestamp())",
            [self.options.queue, self.options.channel, self.options.channel],
        )
        return count

    def warn_of_lost(self, lost: int, consequence: str) -> None:
        """Print to stderr how many leases the stream lost, and the consequence for their messages; nothing for none."""
        if lost:
            line = f"pgqueue: stream {self.options.stream} lost the leases of {lost} messages: they {consequence}."
            print(line, file=sys.stderr, flush=True)

    def _call(self, sql: str, parameters: list[Any]) -> Any:
        with self.options.source.connect() as connection, refusals_as_pipeline_errors(self.options.source):
            return connection.execute(sql, parameters).fetchone()


class LeaseExtender:
    """Call ``extend`` three times per lease, in a thread of the process that plans the stream's batches."""

    def __init__(self, extend: Callable[[], object], lease: float) -> None:
        self._extend = extend
        self.pause = lease / 3
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run, name="pgqueue leases", daemon=True)
        self.thread.start()

    def run(self) -> None:
        """Call ``extend`` until :meth:`stop` is called; four times as often while the database cannot be reached.

        Any other PipelineError ends it, with a line on stderr.
        """
        pause = self.pause
        while not self.stopped.wait(pause):
            pause = self.pause
            try:
                self._extend()
            except SourceLost as error:
                # There are a few tries left before the leases expire.
                pause = self.pause / 4
                print(f"pgqueue: the leases could not be extended; retrying: {error}", file=sys.stderr, flush=True)
            except PipelineError as error:
                print(f"pgqueue: the leases are no longer extended: {error}", file=sys.stderr, flush=True)
                return

    def stop(self) -> None:
        """End the thread. Waits 5 seconds at most for a call that is under way."""
        self.stopped.set()
        self.thread.join(5)
