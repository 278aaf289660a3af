-- Opens a batch: until it is sealed, each message that this transaction inserts becomes its member.
-- p_on_done: the message to enqueue when every member was completed; p_on_dead: when one was not. Objects with the keys
-- of pgqueue_request, and create_channel; NULL: none.
-- Returns the id of the batch. Inside of another open batch it becomes a member of that one.
-- Locks: the outer batch, FOR KEY SHARE.
CREATE FUNCTION pgqueue_batch_open(p_on_done jsonb DEFAULT NULL, p_on_dead jsonb DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
DECLARE
    v_parent bigint := nullif(current_setting('pgqueue.batch', true), '')::bigint;
    v_id bigint;
BEGIN
    INSERT INTO pgqueue_batch (parent_id, on_done, on_dead) VALUES (v_parent, p_on_done, p_on_dead)
    RETURNING id INTO v_id;
    IF v_parent IS NOT NULL THEN
        PERFORM pgqueue_batch_join(v_parent, ARRAY[-v_id]);
    END IF;
    PERFORM set_config('pgqueue.batch', v_id::text, true);
    RETURN v_id;
END;
$$;
