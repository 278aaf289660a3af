-- Opens a stream that consumes a queue, or one channel of it, and takes it over from its previous reader: only the
-- owner that is returned may claim. A stream is known by its name from its first opening on.
-- The Spark data source calls it when a query starts.
-- Returns the owner and the last batch that is settled.
-- Locks: the stream's row (lock order, before step 1): it waits for a claim under way.
-- Errors: PGQ03, PGQ07.
CREATE FUNCTION pgqueue_stream_open(
    p_name text,
    p_queue text DEFAULT 'default',
    p_channel text DEFAULT NULL,
    OUT owner uuid,
    OUT settled bigint
)
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
#variable_conflict use_column
BEGIN
    IF coalesce(p_name, '') = '' OR length(p_name) > 200 THEN
        RAISE EXCEPTION 'the name of a stream takes 1 to 200 characters' USING ERRCODE = 'PGQ07';
    END IF;
    PERFORM pgqueue_raise(pgqueue_missing_queue(p_queue));
    IF p_channel IS NOT NULL AND NOT EXISTS (SELECT FROM pgqueue_channel AS c
        WHERE c.queue = p_queue AND c.name = p_channel) THEN
        PERFORM pgqueue_raise(m.refusal) FROM pgqueue_missing_channel(p_queue, p_channel, false) AS m;
    END IF;
    INSERT INTO pgqueue_stream AS s (name, queue, channel, owner, settled, opened_at)
    VALUES (p_name, p_queue, p_channel, gen_random_uuid(), 0, clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, opened_at = excluded.opened_at
    WHERE s.queue = excluded.queue AND s.channel IS NOT DISTINCT FROM excluded.channel
    RETURNING s.owner, s.settled INTO owner, settled;
    IF owner IS NULL THEN
        RAISE EXCEPTION 'stream "%" reads something else: %', p_name,
            (SELECT format('queue "%s", channel %s', s.queue, coalesce('"' || s.channel || '"', '(all)'))
                FROM pgqueue_stream AS s
            WHERE s.name = p_name)
            USING ERRCODE = 'PGQ07',
            HINT = 'Give this one a name of its own, or give the old one up with pgqueue_stream_release(name).';
    END IF;
END;
$$;
