"""Is a history one that the queue may have? Pure Python, over the files alone, so that any machine can check it."""

from __future__ import annotations

from verification.chaos.history import History

from . import (
    batches,
    breakers,
    fairness,
    keys,
    leases,
    limits,
    liveness,
    order,
    readers,
    settling,
    shares,
    steps,
    storage,
    unique,
)
from .lives import Lives
from .verdict import Check, Verdict

CHECKS: tuple[Check, ...] = (
    storage.i1_in_one_place,
    storage.i2_one_outcome_each,
    settling.i3_completed_once,
    settling.i4_stale_leases_change_nothing,
    leases.i5_leases_do_not_overlap,
    limits.i6_concurrency,
    limits.i7_release_interval,
    limits.i8_size,
    order.i9_first_in_first_out,
    fairness.i10_every_channel_has_its_turn,
    order.i11_not_before_its_time,
    leases.i12_attempts_are_limited,
    liveness.i13_everything_comes,
    liveness.i14_no_unexpected_error,
    readers.i15_readers_see_each_row_once,
    leases.i16_healthy_holders_keep_their_leases,
    settling.i17_effects_once,
    order.i18_strict_order,
    limits.i19_queue_concurrency,
    limits.i20_shared_concurrency,
    keys.i21_order_of_keys,
    breakers.i22_breakers,
    limits.i23_shared_cost,
    shares.i24_shares,
    shares.i25_max_share,
    batches.i26_batches,
    batches.i27_after,
    unique.i28_unique,
    unique.i29_debounce,
    steps.i30_events,
    steps.i31_steps_once,
)


def check(history: History) -> list[Verdict]:
    """The verdict of each invariant, in their order."""
    lives = Lives(history)
    return [Verdict.of(each, history, lives) for each in CHECKS]


def violations(history: History) -> list[str]:
    return [f"{verdict.name}: {text}" for verdict in check(history) for text in verdict.violations]


__all__ = ["CHECKS", "Lives", "Verdict", "check", "violations"]
