"""The list. Each takes one guard away, as a hurried change might."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg

EXPIRED = "m.lease_expires_at <= v_now"
SETTLED_WITH_CHANNEL = "        FROM settled AS n\n        LEFT JOIN pgqueue_channel AS c ON c.id = n.channel_id"
ONE_IS_GONE = "        IF v_one.id IS NOT NULL THEN\n"
FIRST_LANE = "ORDER BY l.seq LIMIT 1\n        FOR UPDATE OF l"
FIRST_MESSAGE = FIRST_LANE.replace("l.seq", "l.floor_rank, l.floor_at, l.seq")
ONE = "pgqueue_message AS m"
GIVE_BACK = "SET status = 1, lease_token = NULL, lease_expires_at = NULL"
FORGET = "        IF v_one.id % 50 = 0 THEN\n            RETURN NEXT v_one.id;\n            RETURN;\n        END IF;\n"
SIDE = "pg_try_advisory_xact_lock(hashtextextended(p_queue, 7210 + n))"
FENCE_OF_ONE = " AND m.lease_token = p_tokens[1]"
FENCE = " AND m.lease_token = p_tokens[array_position(p_ids, m.id)]"


@dataclass(frozen=True, slots=True)
class Defect:
    """In ``function``, each ``find`` becomes ``replace``. ``breaks``: the invariants of which one must be violated.

    ``also``     more edits, (function, find, replace): the same rule in the short way of one message
    ``options``  of the run: for a defect that is in a reader and not in the queue, or that chance would hide
    """

    name: str
    function: str
    find: str
    replace: str
    breaks: frozenset[str] = frozenset()
    also: tuple[tuple[str, str, str], ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def edits(self) -> tuple[tuple[str, str, str], ...]:
        """All edits as (function, find, replace); none for a defect that is not in the database."""
        return ((self.function, self.find, self.replace), *self.also) if self.function else ()

    def edited(self, source: str, edit: tuple[str, str, str]) -> str:
        """Return the source of a function after one of the edits. Raises ValueError when it does not contain the guard
        (any more)."""
        function, find, replace = edit
        if find not in source:
            raise ValueError(f"{self.name}: {function} has no {find!r}")
        return source.replace(find, replace)

    def install(self, session: psycopg.Connection[Any]) -> None:
        """Raises ValueError when a function does not contain the guard (any more)."""
        for edit in self.edits:
            query = "SELECT pg_get_functiondef(%s::regproc)"
            (source,) = session.execute(query, (f"pgqueue_{edit[0]}",)).fetchone() or ("",)
            session.execute(self.edited(source, edit))


def defect(
    name: str,
    function: str,
    find: str,
    replace: str,
    *breaks: str,
    also: tuple[tuple[str, str, str], ...] = (),
    **options: Any,
) -> Defect:
    return Defect(name, function, find, replace, frozenset(breaks), also, options)


DEFECTS = (
    # Fencing.
    defect(
        "complete takes any token", "complete_many", FENCE, "", "I3", "I4", "I5",
        also=(("complete", FENCE_OF_ONE, ""),),
    ),
    defect("heartbeat takes any token", "heartbeat", FENCE, "", "I4"),
    defect("defer takes any token", "defer", FENCE, "", "I4", "I5"),
    defect("retry takes any token", "retry", FENCE, "", "I4", "I5"),
    defect("dead_letter takes any token", "dead_letter", FENCE, "", "I4", "I5"),
    defect(
        "tokens are those of the worker, not of the lease", "dequeue_many",
        "gen_random_uuid()", "md5(p_worker)::uuid", "I4",
        also=(("dequeue", "gen_random_uuid()", "md5(p_worker)::uuid"),),
    ),
    defect(
        "an attempt is not counted at the dequeue", "lease", "m.attempts + 1", "m.attempts", "I4", "I12",
        also=(("dequeue", "m.attempts + 1", "m.attempts"),),
    ),
    # Leases.
    defect("the sweep does not look at the clock", "reclaim", EXPIRED, "m.lease_expires_at IS NOT NULL", "I5"),
    defect(
        "the sweep is half a lease early", "reclaim", EXPIRED, f"{EXPIRED} + interval '0.2 s'", "I5",
    ),
    defect(
        "a heartbeat extends nothing", "heartbeat",
        "SET lease_expires_at = v_expires_at", "SET lease_expires_at = m.lease_expires_at", "I16",
    ),
    defect(
        "leases begin with the transaction", "take",
        "taken_at := clock_timestamp()", "taken_at := now()", "I5", "I7", "I11",
        also=(("dequeue", "v_now timestamptz := clock_timestamp()", "v_now timestamptz := now()"),),
    ),
    defect(
        "leased messages are given away again", "take_turn",
        "WHERE m.channel_id = v_lane.channel_id AND m.status = 1 AND m.id",
        "WHERE m.channel_id = v_lane.channel_id AND m.status IN (1, 2) AND m.id",
        "I5", "I4",
        also=(("dequeue", "v_lane.channel_id AND m.status = 1\n", "v_lane.channel_id AND m.status IN (1, 2)\n"),),
    ),
    defect(
        "one attempt too many", "retry", "m.attempts >= m.max_attempts", "m.attempts > m.max_attempts", "I12",
        max_attempts=2,
    ),
    # Nothing is lost, nothing is doubled.
    defect(
        "complete forgets the archive", "complete_many",
        "        WHERE n.archive <> 'none'\n", "        WHERE n.archive <> 'none' AND n.id % 50 <> 0\n", "I1", "I2",
        also=(("complete", ONE_IS_GONE, f"{FORGET}{ONE_IS_GONE}"),),
    ),
    defect(
        "complete archives and does not delete", "complete_many",
        "DELETE FROM pgqueue_message AS m\n        WHERE m.id = ANY (p_ids)",
        f"UPDATE pgqueue_message AS m {GIVE_BACK} WHERE m.id = ANY (p_ids)",
        "I1",
        also=(("complete", f"DELETE FROM {ONE} WHERE", f"UPDATE {ONE} {GIVE_BACK} WHERE"),),
    ),
    defect(
        "complete archives twice", "complete_many", "    RETURN QUERY SELECT unnest(v_done);",
        "    INSERT INTO pgqueue_archived_message SELECT (jsonb_populate_record(a, jsonb_build_object('archived_at', "
        "a.archived_at + interval '1 us'))).* FROM pgqueue_archived_message AS a WHERE a.id = ANY (v_done);\n"
        "    RETURN QUERY SELECT unnest(v_done);", "I1", "I2",
    ),
    defect("the short way of one message checks no token", "complete", FENCE_OF_ONE, "", "I3", "I4", "I5"),
    defect(
        "dead_letter drops messages that were tried often", "dead_letter",
        f"{SETTLED_WITH_CHANNEL}\n    )", f"{SETTLED_WITH_CHANNEL}\n        WHERE n.attempts < 2\n    )",
        "I1", "I2",
    ),
    defect("a redrive may be repeated", "redrive", " AND l.redriven_at IS NULL", "", "I2"),
    defect(
        "a redrive does not lock", "redrive",
        "            FOR UPDATE SKIP LOCKED\n        ) AS d", "        ) AS d", "I2", operators=8,
    ),
    defect(
        "enqueue_many leaves out a message", "enqueue_many",
        "v_now, NULL::bigint[], NULL::jsonb;",
        "v_now, NULL::bigint[], NULL::jsonb;\n"
        "    DELETE FROM pgqueue_message AS m WHERE m.id = currval('pgqueue_message_id_seq') AND p_handlers[15] <> '';",
        "I1",
    ),
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
        "lanes are not locked", "take_turn", "\n        FOR UPDATE OF l SKIP LOCKED", "", "I6", "I7",
        also=(("dequeue", "\n        FOR UPDATE OF l SKIP LOCKED", ""),),
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
        "a full channel forgets the messages that it drops", "admit_one",
        "PERFORM pgqueue_archive(dropped_ids, 'dropped')",
        "DELETE FROM pgqueue_message AS m WHERE m.id = ANY (dropped_ids)",
        "I2", crowded=["newest"] * 10,
    ),
    defect(
        "a full channel drops messages that are being taken", "choose_dropped", "FOR UPDATE OF m SKIP LOCKED", "", "I4",
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
        "p_limit.max_concurrency - o.places", "p_limit.max_concurrency", "I20", shared_limit={"max_concurrency": 3},
    ),
    defect(
        "a place is not written down", "take_places",
        "FROM unnest(p_places) AS u", "FROM unnest(p_places) AS u WHERE false", "I20",
        also=(("take_place", "IF v_room.counted THEN", "IF false THEN"),), shared_limit={"max_concurrency": 3},
    ),
    defect(
        "a shared limit is not locked", "hold_limit",
        " FOR NO KEY UPDATE SKIP LOCKED", "", "I20", shared_limit={"max_concurrency": 3}, share=0.8,
    ),
    defect(
        "a lease takes no place from the next one", "lease_within",
        "v_rooms[v_at].places - 1", "v_rooms[v_at].places", "I20", shared_limit={"max_concurrency": 3}, share=0.8,
    ),
    defect(
        "what the leases of a shared limit cost is not counted", "limit_room",
        "p_limit.max_cost - o.cost", "p_limit.max_cost", "I23", shared_limit={"max_cost": 8}, share=0.8,
    ),
    defect(
        "a lease leaves the next one all that the limit may cost", "lease_within",
        "v_rooms[v_at].cost - v_message.cost", "v_rooms[v_at].cost", "I23", shared_limit={"max_cost": 8}, share=0.8,
    ),
    # Breakers.
    defect(
        "an open breaker is left out of the limits of a message", "lease_within", "limits || v_asked", "limits", "I22",
    ),
    defect("messages try before the pause is over", "limit_room", "> p_now THEN 0", "> p_now THEN 1", "I22"),
    defect(
        "a message that waits for a breaker uses an attempt", "take_places", "waits_for = CASE",
        "attempts = m.attempts + 1, waits_for = CASE", "I22", "I4",
    ),
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
        also=(("dequeue", "CASE WHEN v_lane.done THEN nextval('pgqueue_lane_seq') ELSE l.seq END", "l.seq"),),
    ),
    defect(
        "a fresh lane stays before the others", "take_turn", "l.fresh AND NOT v_done", "l.fresh", "I10",
        also=(("dequeue", "v_fresh AND NOT v_lane.done", "v_fresh"),),
    ),
    defect(
        "a message puts its channel before others", "take_turn", FIRST_LANE, FIRST_MESSAGE, "I10",
        also=(("dequeue", FIRST_LANE, FIRST_MESSAGE),),
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
    defect(
        "arrivals of a parked lane are thrown away", "fold", "ELSE v_arrival.again OR", "ELSE false OR", "I13",
    ),
    defect("arrivals that committed late are not found", "fold", "v_line.late_xids <> '{}'", "false", "I13"),
    defect("a lane is changed without its lock", "lock_lane", "\n        FOR UPDATE SKIP LOCKED", "", "I13"),
    defect(
        "lanes that have messages are parked", "take_turn",
        "v_lane.floor_at = 'infinity' THEN v_lane.floor_at END",
        "v_lane.floor_at = 'infinity' OR v_lane.seq % 5 = 0 THEN 'infinity'::timestamptz END", "I13",
    ),
    # Readers.
    defect("the archive is read by id", "", "", "", "I15", reader="by id"),
)  # fmt: skip
