"""List defects of batches, of messages that wait for others, and of unique keys."""

from __future__ import annotations

from .defect import defect

LEFT = "EXISTS (SELECT FROM pgqueue_batch_member AS m WHERE m.batch_id = p_id)"

DEFECTS = (
    defect(
        "the last two settlements of a batch do not wait", "batch_look",
        "PERFORM pg_advisory_xact_lock(hashtextextended('pgqueue_batch', p_id));", "", "I26",
        also=(
            ("batch_look", "b.finished_at IS NULL\n    FOR UPDATE;", "b.finished_at IS NULL;"),
            # The last two meet more often.
            ("batch_settle", "PERFORM pgqueue_batch_look(p_id);", "PERFORM pgqueue_batch_look(p_id), pg_sleep(0.03);"),
        ),
    ),
    defect(
        "a batch does not look for its other members", "batch_finish", f"AND NOT {LEFT}", "", "I26",
        also=(
            ("batch_look", f"IF {LEFT} THEN", "IF false THEN"),
            ("batch_look", "pgqueue_batch_passes(p_id)", "false"),
        ),
    ),
    defect(
        "a message that waits does not look for the others", "after_finish", f"AND NOT {LEFT}", "", "I27",
        also=(
            ("batch_look", f"IF {LEFT} THEN", f"IF p_id > 0 AND {LEFT} THEN"),
            ("batch_look", "pgqueue_batch_passes(p_id)", "p_id > 0 AND pgqueue_batch_passes(p_id)"),
        ),
    ),
    defect(
        "a message that is cancelled tells none that waits for it", "after_settled",
        "b.id = ANY (v_looked) AND b.finished_at", "b.id = ANY (v_looked) AND false AND b.finished_at", "I13",
    ),
    defect(
        "a message does not know that others wait for it", "after_hold",
        "SET flow = -coalesce(m.flow, 0)", "SET flow = m.flow", "I2", "I13",
        also=(("after_hold", "(g.flow IS NULL OR g.flow > 0)", "false"),),
    ),
    defect(
        "a message that is being settled counts as ended", "after_hold",
        "AND NOT EXISTS (SELECT FROM pgqueue_message AS g WHERE g.id = m.member_id)", "", "I27",
    ),
    defect(
        "a unique key is free while its message runs", "enqueue_unique",
        "AND EXISTS (SELECT FROM pgqueue_message AS m WHERE m.id = v_held.message_id)", "AND false", "I28",
    ),
    defect(
        "a debounced message is put off without an end", "enqueue_unique",
        "least(v_now + v_wait,\n                m.created_at + (p_unique ->> 'at_most')::interval)", "v_now + v_wait",
        "I29",
    ),
)  # fmt: skip
