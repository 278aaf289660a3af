"""List defects of turns and arrivals, which the tests in tests/concurrency must notice.

FOLDED   of arrivals that are folded without the lock of their lane: test_wakeups.py
DEFECTS  of the turns in which waiting channels get free places: test_turn_defects.py
KEPT     of the turns in which a channel's messages were set aside: test_kept_turns.py
COSTLY   of the turn of a message that costs more than is free: test_costly_messages.py
"""

from __future__ import annotations

from verification.chaos.sabotage.defects import Defect

FOLDED = (Defect("a lane that is held stands in line", "fold", " AND l.xmax IN ('0', l.xmin)", ""),)
DEFECTS = (
    Defect(
        "a turn ends with each promotion", "promote_within",
        "v_left integer := coalesce(v_room.turn_left, 0)", "v_left integer := 0",
    ),
    Defect("the turn is not written down", "promote_within", "SET turn = excluded.turn", "SET turn = 0"),
    Defect("a turn has no weight", "promote_within", "coalesce(v_turn.weight, 1) * ", ""),
    Defect(
        "a place that was given away is given away again", "promised",
        "NOT pgqueue_is_parked(a.channel_id)", "false",
    ),
    Defect(
        "a new message does not wait behind the others", "lease_within",
        " OR v_message.is_new AND v_rooms[v_at].waited", "",
    ),
)  # fmt: skip
KEPT = (
    Defect(
        "a channel loses its turn", "dequeue_many", "v_aside < 4 AND", "false AND",
        also=(("lease_one", "PERFORM pgqueue_keep_turns(ARRAY[p_id])", "PERFORM 1"),),
    ),
    Defect(
        "a channel has one turn after the other", "dequeue_many",
        "v_aside < 4 AND clock_timestamp() < v_until THEN", "true THEN",
    ),
)  # fmt: skip
COSTLY = (
    Defect(
        "cheaper messages that wait overtake the one whose turn it is", "promote_within",
        "v_new, v_room.tokens::numeric, v_room.burst, NULL, v_room.cost, v_room.max_cost",
        "v_new, NULL, NULL, NULL, NULL, NULL",
    ),
    Defect(
        "new messages overtake one that costs more", "hold_limit",
        " OR sum(n.cost) >= least(v_room.cost, v_room.tokens)", "",
    ),
)  # fmt: skip
