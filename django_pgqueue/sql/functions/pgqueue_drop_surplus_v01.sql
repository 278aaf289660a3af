-- Drops the surplus of a plain INSERT in a channel whose policy is drop_oldest or replace; it goes to the archive as
-- dropped.
-- The insert trigger has locked the counts of all channels of its statement. p_new: the messages of the statement that
-- are not leased, in the order of ids; p_messages: how many there are including the leased ones.
-- Locks: messages, SKIP LOCKED.
-- Errors: PGQ04 too few of them may leave.
CREATE FUNCTION pgqueue_drop_surplus(p_channel_id bigint, p_new bigint[], p_messages bigint)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_channel record;
    v_room bigint;
    v_ids bigint[];
BEGIN
    SELECT c.max_size, c.full_policy INTO v_channel FROM pgqueue_channel AS c WHERE c.id = p_channel_id;
    v_room := (pgqueue_reserve(p_channel_id, v_channel.max_size, 0)).room;
    v_ids := pgqueue_choose_dropped(
        p_channel_id, v_channel.max_size, v_channel.full_policy, v_room - p_messages + cardinality(p_new), p_new);
    IF v_ids IS NOT NULL THEN
        PERFORM pgqueue_archive(v_ids, 'dropped');
    END IF;
    PERFORM pgqueue_raise(r.refusal) FROM pgqueue_reserve(p_channel_id, v_channel.max_size, p_messages) AS r;
END;
$$;
