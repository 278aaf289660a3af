"""Examine batches, and messages that wait for others, in a project that has the app of them."""

from __future__ import annotations

from collections.abc import Iterator

from django_pgqueue.checks.rules import CRITICAL, NOTE, WARNING, Limits, Row, Rule
from django_pgqueue.sql.call import call

# Messages that wait have negative ids.
PROBLEMS = """
SELECT CASE WHEN b.id < 0 THEN 'wait_' ELSE 'batch_' END || b.problem, count(*),
    array_agg(abs(b.id) ORDER BY b.id DESC), min(b.refusal ->> 'message')
FROM pgqueue_batch_check() AS b
GROUP BY 1
ORDER BY 1
"""


def stuck(using: str, limits: Limits) -> Iterator[Row]:
    """Yield what is wrong with batches and waits, a row for each kind. A project may do without the app."""
    [(has_batches,)] = call(using, "SELECT to_regproc('pgqueue_batch_check') IS NOT NULL")
    for code, count, ids, reason in call(using, PROBLEMS) if has_batches else []:
        yield {"code": code, "count": count, "shown": ids, "reason": reason}


# fmt: off
STUCK = (
    Rule("wait_endless", CRITICAL, stuck, "count shown",
        "{count} message(s) wait for others that are neither live nor dead letters, for ever: {shown}.",
        "Rows were deleted by hand. Cancel the messages that wait, and enqueue again what is still to be done."),
    Rule("batch_refused", WARNING, stuck, "count shown",
        "{count} batch(es) are over, and what follows them was refused: {shown}. The reason of one: {reason}",
        "Mend the cause, and enqueue the message yourself: its row in pgqueue_batch has it until retention."),
    Rule("batch_full", WARNING, stuck, "count shown",
        "{count} batch(es) have no members left, and what follows waits for room: {shown}. The reason of one: {reason}",
        "Each sweep tries again. Give the channel room, or a larger max_size."),
    Rule("batch_open", NOTE, stuck, "count shown",
        "{count} batch(es) have no members left, and are not over: {shown}.",
        "The next sweep ends them. If they stay, no worker runs maintenance, or it is an error of the queue."),
    Rule("wait_open", NOTE, stuck, "count shown",
        "{count} message(s) wait for others that have all ended: {shown}.",
        "The next sweep lets them go. If they stay, no worker runs maintenance, or it is an error of the queue."),
)
# fmt: on
