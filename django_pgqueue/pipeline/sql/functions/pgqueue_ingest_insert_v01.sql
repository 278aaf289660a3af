-- Enqueues the messages of one stage, in the order in which they were copied, as of p_now.
-- The caller has locked the channels that have a max_size. Ids follow the order of the stage, whatever way the channels
-- are joined; the place of another scan in it must not be the start.
-- Returns how many were created; duplicates: a live message of the channel has the dedupe key; dropped: a full channel
--   that drops.
-- Locks: as pgqueue_enqueue_many.
-- Errors: PGQ04, PGQ05, PGQ07 a shared limit does not exist.
CREATE FUNCTION pgqueue_ingest_insert(
    p_stage bigint, p_now timestamptz, OUT created bigint, OUT duplicates bigint, OUT dropped bigint
)
LANGUAGE plpgsql
SET synchronize_seqscans = off
SET jit = off
AS $$
DECLARE
    v_input text;
    v_insert text;
    v_each boolean;
BEGIN
    v_input := format(
        'SELECT n.*, c.id AS channel_id, c.max_size, c.full_policy,
            coalesce(n.dequeue_at, $1 + coalesce(n.delay, ''0'')) AS due_at,
            CASE WHEN n.limits IS NOT NULL THEN pgqueue_limit_ids(n.limits) END AS limit_ids,
            CASE WHEN n.limits IS NOT NULL THEN pgqueue_waits_for(c.id, pgqueue_limit_ids(n.limits)) END AS waits_for
        FROM (SELECT nextval(''pgqueue_message_id_seq'') AS id, s.* FROM pgqueue_stage_%s AS s) AS n
        JOIN pgqueue_channel AS c ON c.queue = coalesce(n.queue, ''default'')
            AND c.name = coalesce(n.channel, ''default'')',
        p_stage);
    v_insert :=
        'INSERT INTO pgqueue_message (
            id, channel_id, handler, payload, body, headers, priority, dequeue_at, status, max_attempts, backoff,
            backoff_factor, backoff_longest, dedupe_key, order_key, cost, limits, waits_for)
        SELECT i.id, i.channel_id, i.handler, coalesce(i.payload, ''null''), i.body, i.headers, coalesce(i.priority, 0),
            i.due_at, CASE WHEN i.due_at > $1 OR i.waits_for IS NOT NULL THEN 3 ELSE 1 END,
            coalesce(i.max_attempts, 5), i.backoff, i.backoff_factor, i.backoff_longest, i.dedupe_key, i.order_key,
            i.cost, i.limit_ids, CASE WHEN i.due_at <= $1 THEN i.waits_for END';
    EXECUTE format(
        'SELECT pgqueue_raise(pgqueue_refusal(''PGQ07'', ''invalid messages: '' || min(n.problem)))
        FROM (SELECT pgqueue_metering_problem(s.limits, s.cost, s.order_key, coalesce(s.queue, ''default''),
                coalesce(s.channel, ''default''), s.handler) AS problem FROM pgqueue_stage_%s AS s
            WHERE s.limits IS NOT NULL OR s.cost > 1) AS n HAVING min(n.problem) IS NOT NULL', p_stage);
    EXECUTE format(
        'SELECT EXISTS (SELECT FROM pgqueue_stage_%s AS s WHERE s.dedupe_key IS NOT NULL)
            OR EXISTS (SELECT FROM pgqueue_channel AS c
                WHERE c.max_size IS NOT NULL AND c.full_policy = ''drop'')', p_stage)
    INTO v_each;
    IF NOT v_each THEN
        EXECUTE v_insert || format(' FROM (%s) AS i', v_input) USING p_now;
        GET DIAGNOSTICS created = ROW_COUNT;
        duplicates := 0;
        dropped := 0;
        RETURN;
    END IF;

    -- Each message has an answer of its own: the first of a key that no live message has, and of those as many as the
    -- channel has room for.
    EXECUTE format(
        'WITH input AS MATERIALIZED (%s),
        -- Numbers the messages of each dedupe key, because only the first of a key is enqueued.
        keyed AS (
            SELECT i.*, row_number() OVER (PARTITION BY i.channel_id, coalesce(i.dedupe_key, i.id::text),
                i.dedupe_key IS NULL ORDER BY i.id)
                AS place
            FROM input AS i
            WHERE i.dedupe_key IS NULL OR NOT EXISTS (
                SELECT FROM pgqueue_message AS m WHERE m.channel_id = i.channel_id AND m.dedupe_key = i.dedupe_key)
        ),
        -- Reads the room of each full channel that drops.
        room AS MATERIALIZED (
            SELECT d.channel_id, (pgqueue_reserve(d.channel_id, d.max_size, 0)).room AS messages
            FROM (SELECT DISTINCT i.channel_id, i.max_size FROM input AS i
                WHERE i.max_size IS NOT NULL AND i.full_policy = ''drop'') AS d
        ),
        -- Marks the messages that fit into the room of their channel.
        fresh AS MATERIALIZED (
            SELECT k.*, row_number() OVER (PARTITION BY k.channel_id ORDER BY k.id)
                <= coalesce(r.messages, 9e18) AS fits
            FROM keyed AS k
            LEFT JOIN room AS r ON r.channel_id = k.channel_id
            WHERE k.place = 1
        ),
        -- Inserts the messages that fit.
        enqueued AS (
            %s FROM fresh AS i WHERE i.fits ORDER BY i.channel_id, i.dedupe_key, i.id
            ON CONFLICT (channel_id, dedupe_key) WHERE dedupe_key IS NOT NULL DO NOTHING
            RETURNING 1
        )
        SELECT n.created, a.messages - f.messages + f.fitting - n.created, f.messages - f.fitting
        FROM (SELECT count(*) AS created FROM enqueued) AS n,
            (SELECT count(*) AS messages FROM input) AS a,
            (SELECT count(*) AS messages, count(*) FILTER (WHERE fits) AS fitting FROM fresh) AS f',
        v_input, v_insert)
    INTO created, duplicates, dropped
    USING p_now;
END;
$$;
