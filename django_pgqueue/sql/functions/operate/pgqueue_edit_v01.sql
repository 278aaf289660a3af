-- Replaces the payload of a ready or scheduled message. Its place in the line, its attempts and its errors stay.
-- For a dead letter, pgqueue_redrive has p_payload.
-- Returns edited | leased | busy (another transaction takes or settles it) | settled | not_found; or the refusal PGQ07:
--   no payload, or one that is too large.
-- Locks: the message, SKIP LOCKED.
CREATE FUNCTION pgqueue_edit(p_id bigint, p_payload jsonb, OUT outcome text, OUT refusal jsonb)
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    IF p_payload IS NULL THEN
        refusal := pgqueue_refusal('PGQ07', 'there is no payload to put in place',
            'The payload null is the jsonb ''null''.');
        outcome := 'invalid';
        RETURN;
    END IF;
    IF pg_column_size(p_payload) > 67108864 THEN
        refusal := pgqueue_refusal('PGQ07', 'invalid message: the payload takes more than 64 MB');
        outcome := 'invalid';
        RETURN;
    END IF;
    PERFORM m.id FROM pgqueue_message AS m WHERE m.id = p_id AND m.status IN (1, 3) FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE pgqueue_message AS m SET payload = p_payload WHERE m.id = p_id;
        outcome := 'edited';
        RETURN;
    END IF;
    SELECT CASE WHEN w.place IN ('ready', 'scheduled') THEN 'busy' ELSE w.place END INTO outcome
    FROM pgqueue_locate(ARRAY[p_id]) AS w;
END;
$$;
