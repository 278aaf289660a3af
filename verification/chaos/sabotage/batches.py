"""List defects of batches, and of messages that wait for others."""

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
)  # fmt: skip
