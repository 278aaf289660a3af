"""Show on a terminal how far a job is. On Spark, tasks count through an accumulator."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

if TYPE_CHECKING:
    from pyspark import RDD

PRINT_SECONDS = 0.5  # seconds
LOOK_SECONDS = 0.2  # seconds between two looks at what tasks have counted

Result = TypeVar("Result")


class Progress:
    """Show the tasks and rows that are done. Writes nothing when the stream is not a terminal."""

    def __init__(self, tasks: int, stream: TextIO | None = None) -> None:
        self.tasks = tasks
        self.done = 0
        self.rows = 0
        self._stream = stream or sys.stderr
        self._began = self._shown = time.monotonic()
        self._shows = self._stream.isatty()

    def add(self, rows: int) -> None:
        """Count one more task, with its rows."""
        self.set(self.done + 1, self.rows + rows)

    def set(self, done: int, rows: int) -> None:
        """Set the counts, and show them if the last line is PRINT_SECONDS old or all tasks are done."""
        self.done, self.rows = done, rows
        now = time.monotonic()
        if self._shows and (now - self._shown >= PRINT_SECONDS or done == self.tasks):
            self._shown = now
            rate = rows / max(now - self._began, 0.001)
            self._stream.write(f"\r{done} of {self.tasks} tasks, {rows:,} rows, {rate:,.0f} rows/s \x1b[K")
            self._stream.flush()

    def end(self) -> None:
        """Remove the line from the terminal."""
        if self._shows:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def collect(
    rows: RDD[Any], task: Callable[[Iterable[Any]], Result], count: Callable[[Result], int], progress: Progress
) -> list[Result]:
    """Run ``task`` on each partition and return the results, with progress shown meanwhile.

    ``count`` gives the number of rows of a result. An interrupt stops the tasks.
    """
    context = rows.context
    done, counted = context.accumulator(0), context.accumulator(0)

    def counting(part: Iterable[Any]) -> Iterator[Result]:
        result = task(part)
        done.add(1)
        counted.add(count(result))
        yield result

    with ThreadPoolExecutor(1, thread_name_prefix="progress") as pool:
        results = pool.submit(rows.mapPartitions(counting).collect)
        try:
            while wait([results], LOOK_SECONDS).not_done:
                progress.set(done.value, counted.value)
        except BaseException:
            context.cancelAllJobs()
            raise
        progress.set(done.value, counted.value)
        return results.result()
