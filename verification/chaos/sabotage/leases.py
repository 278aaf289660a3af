"""List defects of leases and settlements: what is lost or doubled."""

from __future__ import annotations

from .defect import defect

EXPIRED = "m.lease_expires_at <= v_now"
SETTLED_WITH_CHANNEL = "        FROM settled AS n\n        LEFT JOIN pgqueue_channel AS c ON c.id = n.channel_id"
ONE_IS_GONE = "        IF v_one.id IS NOT NULL THEN\n"
ONE_RETURNS = "            RETURN NEXT v_one.id;\n"
ARCHIVE_AGAIN = (
    "INSERT INTO pgqueue_archived_message SELECT (jsonb_populate_record(a, jsonb_build_object('archived_at', "
    "a.archived_at + interval '1 us'))).* FROM pgqueue_archived_message AS a WHERE a.id"
)
ONE = "pgqueue_message AS m"
GIVE_BACK = "SET status = 1, lease_token = NULL, lease_expires_at = NULL"
FORGET = "        IF v_one.id % 50 = 0 THEN\n            RETURN NEXT v_one.id;\n            RETURN;\n        END IF;\n"
FENCE_OF_ONE = " AND m.lease_token = p_tokens[1]"
FENCE = " AND m.lease_token = p_tokens[array_position(p_ids, m.id)]"

DEFECTS = (
    # Fencing.
    defect(
        "complete takes any token", "archive", "(p_tokens IS NULL OR", "(true OR", "I3", "I4", "I5",
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
        "complete forgets the archive", "archive",
        "        WHERE n.archive <> 'none'\n", "        WHERE n.archive <> 'none' AND n.id % 50 <> 0\n", "I1", "I2",
        also=(("complete", ONE_IS_GONE, f"{FORGET}{ONE_IS_GONE}"),),
    ),
    defect(
        "complete archives and does not delete", "archive",
        "DELETE FROM pgqueue_message AS m\n        WHERE m.id = ANY (p_ids)",
        f"UPDATE pgqueue_message AS m {GIVE_BACK} WHERE m.id = ANY (p_ids)",
        "I1",
        also=(("complete", f"DELETE FROM {ONE} WHERE", f"UPDATE {ONE} {GIVE_BACK} WHERE"),),
    ),
    defect(
        "complete archives twice", "archive", "    RETURN v_done;\n",
        f"    {ARCHIVE_AGAIN} = ANY (v_done);\n    RETURN v_done;\n", "I1", "I2",
        also=(("complete", ONE_RETURNS, f"            {ARCHIVE_AGAIN} = v_one.id;\n{ONE_RETURNS}"),),
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
)  # fmt: skip
