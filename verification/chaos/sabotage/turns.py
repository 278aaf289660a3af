"""List defects of the turns of full shared limits, which tests/concurrency/test_turn_defects.py must notice."""

from __future__ import annotations

from verification.chaos.sabotage.defects import Defect

DEFECTS = (
    Defect(
        "a turn ends with each promotion", "promote_within",
        "v_left integer := coalesce(v_room.turn_left, 0)", "v_left integer := 0",
    ),
    Defect("the turn is not written down", "promote_within", "SET turn = excluded.turn", "SET turn = 0"),
    Defect("a turn has no weight", "promote_within", "coalesce(v_turn.weight, 1) * ", ""),
    Defect(
        "a place that was given away is given away again", "promote_within",
        "c.queue <> ALL (v_slow) AND NOT pgqueue_is_parked(a.channel_id)", "false",
    ),
    Defect(
        "a new message does not wait behind the others", "lease_within",
        " OR v_message.is_new AND v_rooms[v_at].waited", "",
    ),
)  # fmt: skip
