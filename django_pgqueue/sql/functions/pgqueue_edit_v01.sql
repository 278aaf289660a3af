-- Replaces the payload of a waiting message. Its place in the line, its attempts and its errors stay.
-- Caller: an operator. For a dead letter: pgqueue_redrive with p_payload. Returns edited | leased | busy (somebody takes or settles it
--   right now) | settled | not_found. Locks: the message, SKIP LOCKED. Errors: PGQ07, no payload.
CREATE FUNCTION pgqueue_edit(p_id bigint, p_payload jsonb)
RETURNS text
LANGUAGE plpgsql
SECURITY DEFINER
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_place text;
BEGIN
    IF p_payload IS NULL THEN
        RAISE EXCEPTION 'there is no payload to put in place' USING ERRCODE = 'PGQ07', HINT = 'The payload null is the jsonb ''null''.';
    END IF;
    PERFORM m.id FROM pgqueue_message AS m WHERE m.id = p_id AND m.status IN (1, 3) FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE pgqueue_message AS m SET payload = p_payload WHERE m.id = p_id;
        RETURN 'edited';
    END IF;
    SELECT w.place INTO v_place FROM pgqueue_where_is(ARRAY[p_id]) AS w;
    RETURN CASE WHEN v_place IN ('ready', 'scheduled') THEN 'busy' ELSE v_place END;
END;
$$;
