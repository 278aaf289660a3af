"""List defects of limits, of breakers and of shares."""

from __future__ import annotations

from .defect import defect

ALONE = "pg_try_advisory_xact_lock(hashint8extended(p_limit_id, 7220))"
SIDE = "pg_try_advisory_xact_lock(hashtextextended(p_queue, 7210 + n))"
# Settings of the queue whose channels share its capacity. The operator leaves them as they are.
SHARE = {"fairness": "share", "max_share": None, "max_concurrency": 5}
PART = {"fairness": "turns", "max_share": 0.5, "max_concurrency": 5}

DEFECTS = (
    # Limits.
    defect(
        "leases are not counted", "allowance",
        "c.max_concurrency - o.running", "c.max_concurrency", "I6",
    ),
    defect(
        "an expired lease frees its place before it is swept", "allowance",
        "AND m.leased_at >= f.lease_floor", "AND m.leased_at >= f.lease_floor AND m.lease_expires_at > p_now", "I6",
        keeper_pause=0.5,
    ),
    defect(
        "lanes are not locked", "take", "\n            FOR UPDATE OF l SKIP LOCKED", "", "I6", "I7",
        also=(("dequeue", " FOR UPDATE OF l SKIP LOCKED", ""),),
    ),
    defect("limits are not looked at for one message", "dequeue", "v_lane.limited OR ", "", "I6", "I7"),
    defect("a paused channel goes on", "allowance", "IS NOT NULL THEN 0", "IS NOT NULL THEN 100", "I6"),
    defect(
        "the rate is not charged", "take_turn",
        "v_may.next_at + pgqueue_token_time(v_may.step, cost)", "v_may.next_at", "I7",
    ),
    defect("one more than the burst", "allowance", "(c.release_burst - 1)", "c.release_burst", "I7"),
    defect(
        "max_size is looked at without a lock", "lock_size", " FOR UPDATE", ";--", "I8",
        producers=4, crowded=["small"] * 10,
    ),
    defect("departures count twice", "reserve", "sum(g.messages)", "2 * sum(g.messages)", "I8"),
    defect("full too early", "reserve", "p_messages > p_max_size AND", "p_messages > p_max_size - 6 AND", "I8"),
    defect(
        "a full channel forgets the messages that it drops", "enqueue",
        "PERFORM pgqueue_archive(dropped_ids, 'dropped')",
        "DELETE FROM pgqueue_message AS m WHERE m.id = ANY (dropped_ids)",
        "I2", crowded=["newest"] * 10,
    ),
    defect(
        "a full channel drops messages that are being taken", "choose_dropped",
        "status::integer <> 2\n                FOR UPDATE SKIP LOCKED",
        "status::integer <> 2", "I4",
        producers=4, crowded=["newest"] * 10,
    ),
    defect(
        "leases of the queue are not counted", "queue_allowance",
        "v_queue.max_concurrency - cardinality(v_room.ids)", "v_queue.max_concurrency", "I19", queue_limit=4,
    ),
    defect(
        "an expired lease frees its place of the queue", "live_leases",
        "WHERE m.id = ANY (p_held) AND",
        "WHERE m.id = ANY (p_held) AND m.lease_expires_at > clock_timestamp() AND", "I19",
        queue_limit=4, keeper_pause=0.5,
    ),
    defect(
        "the gate is not locked", "lock_gate",
        "\n        FOR UPDATE SKIP LOCKED", "", "I19", queue_limit=4,
        also=(("lock_gate", SIDE, "true"),),
    ),
    defect(
        "the gate lists the newest leases only", "list_leases",
        "held = p_room.ids || p_ids", "held = p_ids", "I19", queue_limit=4,
    ),
    # Shared limits.
    defect(
        "places of a shared limit are not counted", "limit_room",
        "l.max_concurrency - o.places", "l.max_concurrency", "I20", shared_limit={"max_concurrency": 3},
    ),
    defect(
        "a place is not written down", "take_places",
        "FROM unnest(p_places) AS u", "FROM unnest(p_places) AS u WHERE false", "I20",
        also=(("take_alike", "IF v_room.counted THEN", "IF false THEN"),), shared_limit={"max_concurrency": 3},
    ),
    defect(
        "a shared limit is not locked", "hold_limit",
        " FOR NO KEY UPDATE SKIP LOCKED", "", "I20", shared_limit={"max_concurrency": 3}, share=0.8,
        also=(("hold_limit", ALONE, "true"),),
    ),
    defect(
        "a lease takes no place from the next one", "lease_within",
        "v_rooms[v_at].places - 1", "v_rooms[v_at].places", "I20", shared_limit={"max_concurrency": 3}, share=0.8,
        also=(("take_alike", "v_room.places < cardinality(p_ids)", "false"),),
    ),
    defect(
        "what the leases of a shared limit cost is not counted", "limit_room",
        "l.max_cost - o.cost", "l.max_cost", "I23", shared_limit={"max_cost": 8}, share=0.8,
    ),
    defect(
        "a lease leaves the next one all that the limit may cost", "lease_within",
        "v_rooms[v_at].cost - v_message.cost", "v_rooms[v_at].cost", "I23", shared_limit={"max_cost": 8}, share=0.8,
        also=(("take_alike", "v_room.cost < v_all.cost", "false"),),
    ),
    # Shares of capacity.
    defect(
        "leases go beyond the share", "take_guarded", "        v_taken := pgqueue_take_by_share(",
        "        v_may.by_share := false;\n        v_taken := pgqueue_take_by_share(", "I24", crowd=SHARE,
    ),
    defect(
        "a share counts the leases of the same call only", "take_by_share",
        "v_holders bigint[] := p_room.channel_ids", "v_holders bigint[] := '{}'", "I24", crowd=SHARE,
    ),
    defect(
        "all channels have the same share", "take_by_share",
        "* v_lane.weight / v_weights.total", "/ v_weights.total", "I24", crowd=SHARE,
    ),
    defect(
        "a lane that is held is taken for one that has its share", "take_by_share",
        "EXIT WHEN contended AND", "EXIT WHEN false AND", "I24", crowd=SHARE,
    ),
    defect("leases go beyond max_share", "take_by_share", "least(p_room.most, CASE", "least(CASE", "I25", crowd=PART),
    defect("max_share is rounded up", "share_limit", "greatest(1, floor(", "greatest(1, ceil(", "I25", crowd=PART),
    # Breakers.
    defect(
        "an open breaker is left out of the limits of a message", "lease_within", "limits || v_asked", "limits", "I22",
    ),
    defect("messages try before the pause is over", "limit_room", "> p_now THEN 0", "> p_now THEN 1", "I22"),
    defect(
        "a message that waits for a breaker uses an attempt", "take_places", "3 END, waits_for = u.limit_id",
        "3 END, attempts = m.attempts + 1, waits_for = u.limit_id", "I22", "I4",
    ),
)  # fmt: skip
