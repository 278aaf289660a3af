-- Finds ready messages of a queue by their payload: those that contain p_payload, and have one of
-- p_handlers if these are given; p_most of them, in no order.
-- The caller has found the index of payloads. Plans are pinned: of all indexes only that one is left, because a GIN
-- index is read by a bitmap alone.
-- Returns ids.
-- Locks: none.
CREATE FUNCTION pgqueue_match_payload(p_queue text, p_handlers text[], p_payload jsonb, p_most integer)
RETURNS bigint[]
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_indexscan = off
SET enable_bitmapscan = on
SET jit = off
AS $$
BEGIN
    RETURN ARRAY(
        SELECT m.id FROM pgqueue_message AS m
        WHERE m.payload @> p_payload AND (p_handlers IS NULL OR m.handler = ANY (p_handlers)) AND m.status::integer = 1
            AND (SELECT c.queue FROM pgqueue_channel AS c WHERE c.id = m.channel_id) = p_queue
        LIMIT p_most);
END;
$$;
