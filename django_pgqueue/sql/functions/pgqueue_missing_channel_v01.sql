-- Creates the channel that enqueue did not find, if the caller wants that; else says that it does not exist.
-- Caller: pgqueue_enqueue, pgqueue_enqueue_many. Locks: two transactions that create the same channel wait for each other.
-- Errors: PGQ03 channel not found, PGQ07 invalid name.
CREATE FUNCTION pgqueue_missing_channel(
    p_channel text,
    p_queue text,
    p_create boolean,
    OUT id bigint,
    OUT max_size integer,
    OUT full_policy varchar,
    OUT released_at timestamptz
)
LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT coalesce(p_create, false) THEN
        RAISE EXCEPTION 'channel "%" does not exist in queue "%"', left(p_channel, 200), left(p_queue, 100)
            USING ERRCODE = 'PGQ03',
                HINT = 'Create it with pgqueue_channel_set(name, queue) or the admin, or set AUTO_CREATE_CHANNELS.';
    END IF;
    id := pgqueue_channel_set(p_channel, p_queue);
END;
$$;
