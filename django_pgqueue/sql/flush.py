"""Empty the tables that Django's flush does not know, because Django does not manage them."""

from __future__ import annotations

from django_pgqueue.sql.call import call
from django_pgqueue.sql.optional import find_optional

IS_FLUSHED = """
SELECT NOT EXISTS (SELECT FROM pgqueue_channel) AND NOT EXISTS (SELECT FROM pgqueue_message)
    AND NOT EXISTS (SELECT FROM pgqueue_dead_letter)
"""
# Leaves pgqueue_floor, whose last row is needed, and the stages of bulk enqueues, whose jobs may still run.
EMPTY = """
WITH archive AS (DELETE FROM pgqueue_archived_message),
    logs AS (DELETE FROM pgqueue_log),
    tally AS (DELETE FROM pgqueue_tally),
    pruned AS (DELETE FROM pgqueue_pruned),
    unarchived AS (DELETE FROM pgqueue_unarchived),
    unarchived_total AS (DELETE FROM pgqueue_unarchived_total),
    lanes AS (DELETE FROM pgqueue_lane),
    arrivals AS (DELETE FROM pgqueue_arrival),
    gates AS (DELETE FROM pgqueue_gate),
    gate_sides AS (DELETE FROM pgqueue_gate_side),
    sizes AS (DELETE FROM pgqueue_channel_size),
    departures AS (DELETE FROM pgqueue_departure),
    waiters AS (DELETE FROM pgqueue_waiter),
    warnings AS (DELETE FROM pgqueue_queue_warning),
    places AS (DELETE FROM pgqueue_place),
    spendings AS (DELETE FROM pgqueue_spent),
    meters AS (DELETE FROM pgqueue_meter),
    outcomes AS (DELETE FROM pgqueue_breaker_outcome),
    changes AS (DELETE FROM pgqueue_breaker_change),
    limited AS (DELETE FROM pgqueue_limit_handler),
    noted AS (DELETE FROM pgqueue_order_note),
    keys AS (DELETE FROM pgqueue_unique_key)
SELECT 1
"""
EMPTY_PIPELINE = "WITH ingests AS (DELETE FROM pgqueue_ingest) SELECT 1"
EMPTY_FLOW = """
WITH batches AS (DELETE FROM pgqueue_batch),
    members AS (DELETE FROM pgqueue_batch_member),
    lost AS (DELETE FROM pgqueue_batch_lost),
    added AS (DELETE FROM pgqueue_batch_added),
    unsure AS (DELETE FROM pgqueue_batch_unsure),
    progress AS (DELETE FROM pgqueue_progress),
    steps AS (DELETE FROM pgqueue_step),
    events AS (DELETE FROM pgqueue_event),
    unsure_events AS (DELETE FROM pgqueue_event_unsure)
SELECT 1
"""


def empty_rest(using: str) -> bool:
    """Empty the archive and the tables of the line if Django's tables were flushed. Returns whether they were.

    Otherwise the counts of deleted channels would apply to new ones, whose ids begin again.
    """
    flushed = bool(call(using, IS_FLUSHED)[0][0])
    if flushed:
        call(using, EMPTY)
        optional = find_optional(using)
        if optional.pipeline:
            call(using, EMPTY_PIPELINE)
        if optional.flow:
            call(using, EMPTY_FLOW)
    return flushed
