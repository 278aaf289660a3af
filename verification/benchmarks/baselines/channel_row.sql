-- Baseline "channel row": the design in which every verb locks the channel's row.
-- Limits and round robin come out of one row per channel that carries the settings, the counters and the moment at
-- which the channel may be served next. It is simple and exact; its price is that every session that touches a channel
-- queues behind every other session that does, until commit.
-- Built as well as the design allows: partial indexes, room for HOT updates, one call per verb, one clock reading per
-- call, a random lease token, expired leases taken over by the dequeue.

CREATE TABLE row_channel (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    max_concurrency int,
    max_size int,
    release_interval interval,
    size int NOT NULL DEFAULT 0,
    running int NOT NULL DEFAULT 0,
    dequeued_at timestamptz,
    next_at timestamptz                        -- NULL: nothing to serve, or at the limit
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX row_channel_next ON row_channel (next_at) WHERE next_at IS NOT NULL;

CREATE TABLE row_message (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    channel_id bigint NOT NULL,
    payload jsonb NOT NULL,
    dequeue_at timestamptz NOT NULL,
    attempts int NOT NULL DEFAULT 0,
    lease_expires_at timestamptz,
    lease_token uuid,
    created_at timestamptz NOT NULL DEFAULT now()
) WITH (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX row_message_ready ON row_message (channel_id, dequeue_at, id) WHERE lease_expires_at IS NULL;
CREATE INDEX row_message_leased ON row_message (lease_expires_at) WHERE lease_expires_at IS NOT NULL;

CREATE FUNCTION row_enqueue(p_channel text, p_payload jsonb, p_dequeue_at timestamptz DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    v_channel row_channel;
    v_dequeue_at timestamptz;
    v_id bigint;
BEGIN
    SELECT * INTO v_channel FROM row_channel WHERE name = p_channel FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'channel % does not exist', p_channel;
    END IF;
    IF v_channel.size >= v_channel.max_size THEN
        RETURN NULL;
    END IF;
    v_dequeue_at := coalesce(p_dequeue_at, clock_timestamp());

    INSERT INTO row_message (channel_id, payload, dequeue_at)
    VALUES (v_channel.id, p_payload, v_dequeue_at)
    RETURNING id INTO v_id;

    UPDATE row_channel
       SET size = size + 1,
           next_at = CASE WHEN running >= max_concurrency THEN NULL
                          ELSE least(next_at, greatest(v_dequeue_at, dequeued_at + release_interval)) END
     WHERE id = v_channel.id;
    RETURN v_id;
END
$$;

CREATE FUNCTION row_dequeue(
    p_lease interval, OUT id bigint, OUT lease_token uuid, OUT payload jsonb, OUT attempts int
) RETURNS SETOF record
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := clock_timestamp();
    v_channel row_channel;
    v_message_id bigint;
    v_next timestamptz;
BEGIN
    -- A message whose worker died keeps its slot in the counters, so only its own row changes.
    SELECT id INTO v_message_id
      FROM row_message
     WHERE lease_expires_at <= v_now
     ORDER BY lease_expires_at
     LIMIT 1
       FOR UPDATE SKIP LOCKED;

    IF NOT FOUND THEN
        SELECT * INTO v_channel
          FROM row_channel
         WHERE next_at <= v_now
         ORDER BY next_at
         LIMIT 1
           FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;

        SELECT id INTO v_message_id
          FROM row_message
         WHERE channel_id = v_channel.id AND lease_expires_at IS NULL
         ORDER BY dequeue_at, id
         LIMIT 1;
    END IF;

    RETURN QUERY
    UPDATE row_message
       SET attempts = attempts + 1, lease_expires_at = v_now + p_lease, lease_token = gen_random_uuid()
     WHERE id = v_message_id
    RETURNING id, lease_token, payload, attempts;
    IF v_channel.id IS NULL THEN
        RETURN;
    END IF;

    SELECT dequeue_at INTO v_next
      FROM row_message
     WHERE channel_id = v_channel.id AND lease_expires_at IS NULL
     ORDER BY dequeue_at, id
     LIMIT 1;

    -- Not earlier than now: the channel goes behind all that were waiting, which is the round robin.
    UPDATE row_channel
       SET running = running + 1,
           dequeued_at = v_now,
           next_at = CASE WHEN v_next IS NULL OR running + 1 >= max_concurrency THEN NULL
                          ELSE greatest(v_next, v_now + coalesce(release_interval, interval '0')) END
     WHERE id = v_channel.id;
END
$$;

CREATE FUNCTION row_complete(p_id bigint, p_token uuid) RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    v_channel row_channel;
    v_next timestamptz;
BEGIN
    SELECT c.* INTO v_channel
      FROM row_channel AS c
     WHERE c.id = (SELECT channel_id FROM row_message WHERE id = p_id)
       FOR UPDATE;
    DELETE FROM row_message WHERE id = p_id AND lease_token = p_token;
    IF NOT FOUND THEN
        RETURN false;
    END IF;

    -- Only a channel that stood at its limit has to look for its next message.
    IF v_channel.running >= v_channel.max_concurrency THEN
        SELECT dequeue_at INTO v_next
          FROM row_message
         WHERE channel_id = v_channel.id AND lease_expires_at IS NULL
         ORDER BY dequeue_at, id
         LIMIT 1;
    ELSE
        v_next := v_channel.next_at;
    END IF;

    UPDATE row_channel
       SET size = size - 1,
           running = running - 1,
           next_at = CASE WHEN v_next IS NOT NULL THEN greatest(v_next, dequeued_at + release_interval) END
     WHERE id = v_channel.id;
    RETURN true;
END
$$;
