-- Builds the last column of a verb, refusal, for a request that it cannot grant: {"outcome", "sqlstate", "message",
-- "hint"}.
-- Caller: pgqueue_breaker_open, pgqueue_breaker_set, pgqueue_cancel, pgqueue_channel_erase, pgqueue_channel_purge,
--   pgqueue_channel_refusal, pgqueue_channel_set, pgqueue_complete, pgqueue_dead_letter, pgqueue_defer, pgqueue_edit,
--   pgqueue_enqueue, pgqueue_enqueue_check, pgqueue_enqueue_each, pgqueue_enqueue_many, pgqueue_find_breaker,
--   pgqueue_heartbeat, pgqueue_limit_pause, pgqueue_limit_resume, pgqueue_limit_set, pgqueue_make_room,
--   pgqueue_missing_channel, pgqueue_missing_queue, pgqueue_past_pause, pgqueue_pop, pgqueue_queue_drop,
--   pgqueue_queue_holds, pgqueue_queue_purge, pgqueue_queue_set, pgqueue_redrive, pgqueue_reschedule, pgqueue_retry,
--   pgqueue_schedule_run, pgqueue_withhold.
-- The verbs return it instead of raising it, so that the caller's transaction stays usable. The outcome is not_found,
-- full, released, busy, invalid or not_empty; the SQLSTATE names the exception of Python. pgqueue_raise turns it into
-- an error.
-- Locks: none.
CREATE FUNCTION pgqueue_refusal(p_sqlstate text, p_message text, p_hint text DEFAULT '')
RETURNS jsonb
LANGUAGE sql
STABLE
AS $$
SELECT jsonb_build_object(
    'outcome', CASE p_sqlstate
        WHEN 'PGQ04' THEN 'full'
        WHEN 'PGQ05' THEN 'released'
        WHEN 'PGQ06' THEN 'busy'
        WHEN 'PGQ07' THEN 'invalid'
        WHEN 'PGQ10' THEN 'not_empty'
        ELSE 'not_found'
    END,
    'sqlstate', p_sqlstate, 'message', p_message, 'hint', p_hint);
$$;
