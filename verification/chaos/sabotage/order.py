"""List defects of order, time, turns and wake-ups, and of a reader."""

from __future__ import annotations

from .defect import defect

FIRST_LANE = "ORDER BY l.seq LIMIT 1\n            FOR UPDATE OF l"
FIRST_MESSAGE = FIRST_LANE.replace("l.seq", "l.floor_rank, l.floor_at, l.seq")

DEFECTS = (
    # Order, time, turns.
    defect(
        "promoted before it is due", "promote",
        "m.dequeue_at <= v_now", "m.dequeue_at <= v_now + interval '0.1 s'", "I11",
    ),
    defect(
        "the newest first", "take_turn",
        "ORDER BY -m.priority, m.dequeue_at, m.id LIMIT v_lane.quota", "ORDER BY m.id DESC LIMIT v_lane.quota", "I9",
        also=(("dequeue", "ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1", "ORDER BY m.id DESC LIMIT 1"),),
    ),
    defect(
        "a lane does not go to the tail", "take_turn",
        "CASE WHEN v_done THEN nextval('pgqueue_lane_seq') ELSE l.seq END", "l.seq", "I10",
        also=(("dequeue", "CASE WHEN v_done THEN nextval('pgqueue_lane_seq') ELSE l.seq END", "l.seq"),),
    ),
    defect(
        "a fresh lane stays before the others", "take_turn", "l.fresh AND NOT v_done", "l.fresh", "I10",
        also=(("dequeue", "v_fresh AND NOT v_done", "v_fresh"),),
    ),
    defect(
        "each turn has those of fifteen missed rounds", "round",
        "least((n.round >> 20) - (p_round >> 20) - 1, 15)", "15", "I10",
    ),
    defect(
        "a message puts its channel before others", "take", FIRST_LANE, FIRST_MESSAGE, "I10",
        also=(("dequeue", " ".join(FIRST_LANE.split()), " ".join(FIRST_MESSAGE.split())),),
    ),
    defect(
        "a retry does not hold its ordered channel", "retry",
        "AND c.ordered) AS ordered", "AND false) AS ordered", "I18",
    ),
    defect(
        "an ordered channel does not know its last message", "take_ordered", "m.id = p_current_id", "m.id = -1", "I18",
        also=(("allowance", "m.id = p_current_id", "m.id = -1"),),
    ),
    defect(
        "a message does not wait for its order key", "take_keyed", "m.order_key IS NULL OR u.id = (",
        "m.order_key IS NULL OR u.id > 0 OR u.id = (", "I21", also=(("take_key", "v_first_id = p_id", "true"),),
    ),
    defect(
        "the newest message of an order key first", "first_of_key",
        "ORDER BY coalesce(m.leased_at, m.last_leased_at), coalesce(m.order_place, m.id)", "ORDER BY m.id DESC", "I21",
    ),
    defect(
        "a settlement forgets the next message of its key", "release_keys", "AND o.waits_for = -1", "AND false", "I13",
    ),
    # Wake-ups.
    defect("a deferred message is not announced", "defer", "PERFORM pgqueue_announce(v_done)", "PERFORM 1", "I13"),
    defect("a promoted message is not announced", "promote", "PERFORM pgqueue_announce(v_ids)", "PERFORM 1", "I13"),
    defect(
        "a free place is not announced", "record_departures",
        "(c.max_concurrency IS NOT NULL OR c.release_interval IS NOT NULL)\n    )", "false\n    )", "I13",
    ),
    defect(
        "arrivals of a held lane are thrown away", "fold",
        "v_held := v_held || v_arrival.channel_id;\n", "v_places := v_places || v_arrival.places;\n", "I13",
    ),
    defect("arrivals of a parked lane are thrown away", "fold", "ELSE v_arrival.again OR", "ELSE false OR", "I13"),
    defect("arrivals that committed late are not found", "fold", "v_line.late_xids <> '{}'", "false", "I13"),
    defect(
        "a floor does not know what may commit late", "raise_floors",
        "v_next.late_xids := ARRAY(", "v_next.late_xids := '{}' || ARRAY(SELECT x FROM unnest('{}'::xid8[]) AS x); -- ",
        "I13",
    ),
    defect("a lane is changed without its lock", "lock_lane", "\n        FOR UPDATE SKIP LOCKED", "", "I13"),
    defect(
        "lanes that have messages are parked", "take_turn",
        "v_lane.floor_at = 'infinity' THEN v_lane.floor_at END",
        "v_lane.floor_at = 'infinity' OR v_lane.seq % 5 = 0 THEN 'infinity'::timestamptz END", "I13",
    ),
    # Readers.
    defect("the archive is read by id", "", "", "", "I15", reader="by id"),
)  # fmt: skip
