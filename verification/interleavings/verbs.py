"""Every call that changes something, as one statement about one message."""

from __future__ import annotations

from dataclasses import dataclass

READY, LEASED, DEAD, ABSENT = "ready", "leased", "dead", "absent"


@dataclass(frozen=True, slots=True)
class Verb:
    """``sql``: with %(id)s, %(token)s, %(channel)s and %(key)s. ``needs``: the state that the message must have.

    The first column of its answer is counted; ``answers``: it is a number itself. A second column is the refusal.
    """

    name: str
    sql: str
    needs: str = LEASED
    answers: bool = False


PAIR = "ARRAY[%(id)s::bigint], ARRAY[%(token)s::uuid]"
ENQUEUE = "pgqueue_enqueue('work', '{}', %(channel)s, p_dedupe_key => %(key)s)"
VERBS = (
    Verb("enqueue", f"SELECT id, refusal FROM {ENQUEUE}", ABSENT),
    Verb(
        "enqueue_many",
        "SELECT id, refusal FROM pgqueue_enqueue_many(ARRAY['work', 'work'], ARRAY['{}', '{}']::jsonb[], "
        "ARRAY[%(channel)s, %(channel)s], p_dedupe_keys => ARRAY[%(key)s, NULL])",
        ABSENT,
    ),
    Verb(
        "INSERT",
        "INSERT INTO pgqueue_message (channel_id, handler, dedupe_key) "
        "SELECT c.id, 'work', %(key)s FROM pgqueue_channel AS c WHERE c.name = %(channel)s RETURNING id",
        ABSENT,
    ),
    Verb(
        "enqueue_after",
        "SELECT id, refusal FROM pgqueue_enqueue_after(ARRAY[%(id)s::bigint], 'run', 'work', '{}', %(channel)s)",
    ),
    Verb("dequeue", "SELECT id FROM pgqueue_dequeue()", READY),
    Verb("pop", "SELECT id FROM pgqueue_pop()", READY),
    # Nothing else is there: it takes back what has expired.
    Verb("dequeue of expired", "SELECT id FROM pgqueue_dequeue()"),
    Verb("heartbeat", f"SELECT id FROM pgqueue_heartbeat({PAIR})"),
    Verb("complete", f"SELECT pgqueue_complete({PAIR})"),
    Verb("defer", f"SELECT id FROM pgqueue_defer({PAIR})"),
    Verb("retry", f"SELECT id FROM pgqueue_retry({PAIR}, ARRAY['{{}}']::jsonb[])"),
    Verb("dead_letter", f"SELECT pgqueue_dead_letter({PAIR}, ARRAY['refused'])"),
    Verb("cancel", "SELECT id FROM pgqueue_cancel(ARRAY[%(id)s::bigint, 0])"),
    Verb("channel_purge", "SELECT messages FROM pgqueue_channel_purge('default', %(channel)s)", READY, True),
    Verb(
        "reschedule",
        "SELECT r.id FROM pgqueue_reschedule(ARRAY[%(id)s::bigint], '2100-01-01') AS r WHERE r.outcome = 'rescheduled'",
        READY,
    ),
    Verb(
        "lease_release",
        "SELECT r.id FROM pgqueue_lease_release(ARRAY[%(id)s::bigint]) AS r WHERE r.outcome = 'released'",
    ),
    Verb("discard", "SELECT r.id FROM pgqueue_discard(ARRAY[%(id)s::bigint]) AS r WHERE r.outcome = 'discarded'"),
    Verb("edit", "SELECT e.outcome FROM pgqueue_edit(%(id)s::bigint, '7') AS e WHERE e.outcome = 'edited'", READY),
    Verb("redrive", "SELECT old_id FROM pgqueue_redrive(ARRAY[%(id)s::bigint])", DEAD),
    Verb("sweep", "SELECT retried + poisoned + cancelled FROM pgqueue_sweep()", LEASED, True),
    Verb("tick", "SELECT pgqueue_tick()", READY, True),
    Verb("prune", "SELECT channels_removed FROM pgqueue_prune('30 days', '30 days', 1)", DEAD, True),
    Verb("channel_set", """SELECT pgqueue_channel_set('default', %(channel)s, '{"weight": 2}')""", READY),
    Verb("channel_pause", "SELECT pgqueue_channel_pause('default', %(channel)s)", READY),
    Verb("channel_resume", "SELECT pgqueue_channel_resume('default', %(channel)s)", READY),
    Verb("channel_release", "SELECT pgqueue_channel_release('default', %(channel)s)", READY),
    Verb("queue_pause", "SELECT pgqueue_queue_pause('default')", READY),
    Verb("queue_resume", "SELECT pgqueue_queue_resume('default')", READY),
)
