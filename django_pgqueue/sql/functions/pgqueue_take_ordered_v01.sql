-- Takes the message of an ordered channel whose turn it is: the one that was delivered last, until it is settled for
-- good; then the first one that is ready.
-- Caller: pgqueue_take_turn.
-- The caller holds the channel's lane, and pgqueue_allowance has seen that no message is leased or held. p_current_id:
-- the message that was delivered last; p_rank, p_at, p_key: no ready message sorts before this key; p_among: take it
-- only if it is one of these, because a later one must not overtake it.
-- Returns the message, locked; none, if another transaction holds it, if it is not one of p_among, or if a dead letter
--   has to pause the channel first.
-- Locks: the message, SKIP LOCKED: a message that another transaction holds is not passed over; and as
--   pgqueue_pause_at_dead. The callers pin the plans.
CREATE FUNCTION pgqueue_take_ordered(
    p_channel_id bigint, p_current_id bigint, p_rank smallint, p_at timestamptz, p_key bigint, p_among bigint[]
)
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_id bigint;
BEGIN
    -- The cast is as in pgqueue_announce.
    SELECT m.id INTO v_id FROM pgqueue_message AS m
    WHERE m.id = p_current_id AND m.channel_id = p_channel_id AND m.status::integer = 1;
    IF NOT FOUND THEN
        -- The settlement could not pause the channel while another transaction edited it.
        IF pgqueue_pause_at_dead(ARRAY[p_channel_id], ARRAY[p_current_id]) THEN
            RETURN '{}';
        END IF;
        SELECT m.id INTO v_id FROM pgqueue_message AS m
        WHERE m.channel_id = p_channel_id AND m.status = 1
            AND (-m.priority, m.dequeue_at, m.id) >= (p_rank, p_at, p_key)
        ORDER BY -m.priority, m.dequeue_at, m.id LIMIT 1;
    END IF;
    RETURN ARRAY(
        SELECT m.id FROM pgqueue_message AS m
        WHERE m.id = v_id AND m.status::integer = 1 AND (p_among IS NULL OR m.id = ANY (p_among))
        FOR UPDATE SKIP LOCKED);
END;
$$;
