-- Makes room for one new message on a channel that has a max_size: messages that its policy drops for it leave now.
-- p_dedupe_key: the new message's; p_wait: as in pgqueue_reserve.
-- Returns all NULL when the channel takes the message; dropped_ids alone, when others have left for it; else the
--   outcome duplicate with the id, or as pgqueue_admit.
-- Locks: as pgqueue_admit.
CREATE FUNCTION pgqueue_admit_one(
    p_channel_id bigint,
    p_max_size integer,
    p_full_policy text,
    p_dedupe_key text,
    p_wait interval,
    OUT outcome text,
    OUT id bigint,
    OUT dropped_ids bigint[],
    OUT refusal jsonb
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    SELECT a.outcome, a.dropped_ids, a.refusal INTO outcome, dropped_ids, refusal
    FROM pgqueue_admit(p_channel_id, p_max_size, p_full_policy, 1, p_wait) AS a;
    IF dropped_ids IS NULL THEN
        RETURN;
    END IF;
    -- Another enqueuer may have brought the key while this one waited for the count: a duplicate makes nothing leave.
    id := CASE WHEN p_dedupe_key IS NOT NULL THEN pgqueue_find_duplicate(p_channel_id, p_dedupe_key) END;
    IF id IS NOT NULL THEN
        outcome := 'duplicate';
        dropped_ids := NULL;
    ELSE
        PERFORM pgqueue_archive(dropped_ids, 'dropped');
    END IF;
END;
$$;
