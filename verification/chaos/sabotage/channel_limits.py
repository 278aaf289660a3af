"""List defects of limits that are one for each channel, which a random history notices."""

from __future__ import annotations

from verification.chaos.sabotage.defects import Defect

DEFECTS = (
    Defect("all channels share one row", "own_limit", "AND c.channel_id = p_channel_id", ""),
    Defect("a channel's row keeps no places", "hold_limit", "OR v_limit.parent_id IS NOT NULL AND", "OR false AND"),
    Defect(
        "a channel's row does not follow its limit",
        "limit_room",
        "coalesce(p_limit.parent_id, p_limit.id)",
        "p_limit.id",
    ),
    Defect(
        "a new row forgets what is leased", "limit_of_channel", "ELSIF p_limit.breaker_failures IS NULL", "ELSIF false"
    ),
    Defect("a pruned row forgets its tokens", "idle_limits", "(r.tokens >= r.burst) IS NOT FALSE AND", ""),
    Defect("another per forgets what is leased", "limit_set", ", pgqueue_place_leases(ARRAY[v_limit.id])", ""),
    Defect(
        "a handler that gets the limit brings no leases of channels",
        "limit_set",
        "pgqueue_limit_set.id || array_agg(o.id)",
        "pgqueue_limit_set.id || array_agg(o.id) FILTER (WHERE false)",
    ),
    Defect(
        "a correction of the cost goes to the limit of all",
        "spend",
        "pgqueue_own_limit(n.id, v_message.channel_id)",
        "n.id",
    ),
)
