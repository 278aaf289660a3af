-- Lists channels whose messages wait for a shared limit, p_most at most: those behind the channel p_from, then the
-- others, in the order of their turns.
-- A million messages of a channel may wait: each channel is one step of the index.
-- Locks: none.
CREATE FUNCTION pgqueue_waiting_channels(p_limit_id bigint, p_from bigint, p_most integer)
RETURNS SETOF bigint
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_channel_id bigint := p_from;
    v_again boolean := false;
BEGIN
    WHILE p_most > 0 LOOP
        SELECT m.channel_id INTO v_channel_id FROM pgqueue_message AS m
        WHERE m.waits_for = p_limit_id AND m.channel_id > v_channel_id ORDER BY m.channel_id LIMIT 1;
        EXIT WHEN v_again AND (v_channel_id > p_from) IS NOT FALSE;
        IF v_channel_id IS NULL THEN
            v_channel_id := 0;
            v_again := true;
        ELSE
            RETURN NEXT v_channel_id;
            p_most := p_most - 1;
        END IF;
    END LOOP;
END;
$$;
