"""Time passes without waiting: every moment that the queue knows is moved into the past."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_pgqueue import Delivery
from tests.support.sql import sql, value

# Every moment that a function compares with the clock.
MOMENTS = {
    "pgqueue_message": ("dequeue_at", "leased_at", "last_leased_at", "lease_expires_at", "held_until"),
    "pgqueue_lane": ("floor_at", "parked_until", "next_at", "lease_floor"),
    "pgqueue_arrival": ("floor_at",),
    "pgqueue_floor": ("parked_from", "ticked_at", "expiry_from", "due_from", "watched_at"),
    "pgqueue_waiter": ("wait_until",),
    "pgqueue_channel": ("released_at", "paused_until"),
    "pgqueue_queue": ("paused_until", "changed_at"),
    "pgqueue_gate": ("next_at", "seen_at"),
    "pgqueue_place": ("placed_at",),
    "pgqueue_spent": ("spent_at",),
    "pgqueue_meter": ("filled_at", "place_floor"),
    "pgqueue_limit": ("opened_at", "open_until", "closed_at"),
    "pgqueue_breaker_outcome": ("leased_at", "ended_at"),
    "pgqueue_dead_letter": ("dead_at",),
}


def pass_time(**duration: float) -> None:
    """Move every moment that the queue knows into the past, instead of waiting: ``pass_time(minutes=1)``."""
    for table, columns in MOMENTS.items():
        moves = ", ".join(f"{column} = {column} - %s" for column in columns)
        sql(f"UPDATE {table} SET {moves}", *[timedelta(**duration)] * len(columns))
    sql(
        "UPDATE pgqueue_message AS m SET errors = (SELECT jsonb_agg(e || jsonb_build_object("
        "'at', (e ->> 'at')::timestamptz - %s)) FROM jsonb_array_elements(m.errors) AS e)"
        " WHERE m.errors IS NOT NULL",
        timedelta(**duration),
    )


def expire(*deliveries: Delivery) -> None:
    """Let these leases expire, as if their workers had been silent for longer than the lease."""
    sql(
        "UPDATE pgqueue_message SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE id = ANY (%s)",
        [delivery.id for delivery in deliveries],
    )
    # A lease never begins in the past: a tick of a moment ago would have passed it.
    sql("UPDATE pgqueue_floor SET expiry_from = '-infinity'")


def a_moment_of_the_database() -> Any:
    """Return the time of the database clock."""
    return value("SELECT clock_timestamp()")
