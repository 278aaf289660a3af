-- Computes which of the messages that a lane's turn has taken the rates of its channel and its queue allow, and what
-- they cost.
-- p_ids: locked, in the order of service; p_tokens, p_burst, p_step: of the channel's rate, NULL without one;
-- p_queue_tokens, p_queue_burst: of the queue's; p_left: how many messages the turn has left. A message that costs more
-- than the burst waits until the bucket is full.
-- Returns ids: the first of them, up to the one that has to wait; cost: what they cost together; slack: how far the
--   time of the channel's bucket may be ahead of the clock when the next message starts; queue_wanted: the tokens of
--   the queue that it waits for, NULL when it does not, or when the turn is over; waits: what the message costs that
--   has to wait.
-- Locks: none. The callers pin the plans.
CREATE FUNCTION pgqueue_pay(
    p_ids bigint[],
    p_tokens numeric,
    p_burst integer,
    p_step interval,
    p_queue_tokens numeric,
    p_queue_burst integer,
    p_left integer,
    OUT ids bigint[],
    OUT cost bigint,
    OUT slack interval,
    OUT queue_wanted integer,
    OUT waits integer
)
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_message record;
    v_wanted integer;
BEGIN
    ids := '{}';
    cost := 0;
    FOR v_message IN
        SELECT u.id, coalesce((SELECT m.cost FROM pgqueue_message AS m WHERE m.id = u.id), 1) AS cost
        FROM unnest(p_ids) WITH ORDINALITY AS u (id, place)
        ORDER BY u.place
    LOOP
        v_wanted := CASE WHEN p_tokens - cost < least(v_message.cost, p_burst) THEN least(v_message.cost, p_burst) END;
        queue_wanted := CASE WHEN p_queue_tokens - cost < least(v_message.cost, p_queue_burst)
            THEN least(v_message.cost, p_queue_burst) END;
        IF v_wanted IS NOT NULL OR queue_wanted IS NOT NULL THEN
            waits := v_message.cost;
            EXIT;
        END IF;
        ids := ids || v_message.id;
        cost := cost + v_message.cost;
    END LOOP;
    -- Behind a turn that is over, the next lane may find enough.
    queue_wanted := CASE WHEN cardinality(ids) < p_left THEN queue_wanted END;
    slack := pgqueue_token_time(p_step, p_burst - coalesce(v_wanted, 1));
END;
$$;
