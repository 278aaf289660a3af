-- Erases a tenant, one part in each call: the live messages, the archive, the dead letters, the schedules and the
-- figures of a channel, and its context. At the end it releases the channel.
-- The first call pauses the channel, and the first ones take the messages of before it, so that they end beside fast
-- producers. The last call takes up to p_limit that came since, and releases the channel in the same transaction if
-- none is left: from then on it refuses new ones. A call removes at most p_limit messages, or reads one range of a
-- table. Its "reached" is p_after of the next call; the last one returns erased. Then pgqueue_remove_released removes
-- the row of the channel, when no open transaction can still bring a message. A row that came meanwhile is found by a
-- second run.
-- p_force: messages under lease are removed, too; a later settlement of their holders is refused as a lost lease.
-- p_dry_run: nothing is changed, the rows are only counted.
-- Returns removed: the rows by table, without pgqueue_; leased: messages that stay because of their lease; and erasing,
--   busy (another transaction holds locks: call again with the same p_after) or erased; or the refusal PGQ07.
-- Locks: the channel's row, for 2 seconds at most; messages, schedules and their ticks, SKIP LOCKED; rows of the
--   archive and dead letters, for 2 seconds at most; pg_try_advisory_xact_lock of prune and measure for the figures.
CREATE FUNCTION pgqueue_channel_erase(
    p_queue text,
    p_channel text,
    p_force boolean DEFAULT false,
    p_dry_run boolean DEFAULT false,
    p_after jsonb DEFAULT '{}',
    p_limit integer DEFAULT 10000,
    OUT removed jsonb,
    OUT leased bigint,
    OUT reached jsonb,
    OUT outcome text,
    OUT refusal jsonb
)
LANGUAGE plpgsql
SECURITY DEFINER
SET lock_timeout = 2000
SET jit = off
AS $$
DECLARE
    v_ids bigint[];
    v_names text[];
    v_name text;
    v_schedules text[];
    v_ticks bigint[];
    v_pipeline jsonb := '{}';
    v_step record;
    v_table record;
    v_until bigint;
    v_batches bigint;
BEGIN
    IF num_nulls(p_queue, p_channel, p_force, p_dry_run, p_after, p_limit) > 0 OR p_limit < 1 THEN
        refusal := pgqueue_refusal('PGQ07', 'an erase takes no NULL, and a limit of 1 or more');
        outcome := refusal ->> 'outcome';
        RETURN;
    END IF;
    removed := '{}';
    leased := 0;
    reached := p_after;
    outcome := 'erasing';
    -- A released channel whose name was used again has another name until it is removed.
    v_ids := ARRAY(
        SELECT c.id FROM pgqueue_channel AS c WHERE c.queue = p_queue AND c.name = p_channel
        UNION ALL
        SELECT c.id FROM pgqueue_channel AS c
        WHERE c.released_at IS NOT NULL AND c.queue = p_queue AND length(p_channel) <= 160
            AND c.name = format('%s (released %s)', p_channel, c.id));
    v_names := p_channel || ARRAY(SELECT c.name FROM pgqueue_channel AS c WHERE c.id = ANY (v_ids));
    IF NOT p_after ? 'table' THEN
        v_until := coalesce((p_after ->> 'until')::bigint, (SELECT s.last_value FROM pgqueue_message_id_seq AS s));
        IF NOT p_dry_run THEN
            UPDATE pgqueue_channel AS c
            SET paused_at = coalesce(c.paused_at, clock_timestamp()), pause_reason = 'the channel is being erased',
                paused_until = NULL, context = '{}'
            WHERE c.id = ANY (v_ids) AND c.pause_reason <> 'the channel is being erased';
        END IF;
        -- First, so that the end of a batch that loses a member here puts nothing into the channel.
        IF NOT p_after ? 'until' AND to_regproc('pgqueue_batch_erase') IS NOT NULL THEN
            v_batches := pgqueue_batch_erase(p_queue, v_names, p_dry_run);
        END IF;
        SELECT e.* INTO v_step FROM pgqueue_erase_messages(v_ids, p_force, p_dry_run, p_limit, v_until) AS e;
        removed := jsonb_strip_nulls(jsonb_build_object('message', v_step.messages, 'batch', v_batches));
        leased := v_step.leased;
        reached := CASE WHEN v_step.more THEN jsonb_build_object('until', v_until) ELSE '{"table": ""}' END;
        RETURN;
    END IF;
    -- The tables without an index on the channel are read in ranges. A partition may have been dropped since.
    SELECT c.oid::regclass AS relation, c.relname::text AS name,
        CASE WHEN c.relname IN ('pgqueue_dead_letter', 'pgqueue_log') THEN substr(c.relname, 9) ELSE 'archived_message' END
            AS kind
    INTO v_table
    FROM (
        SELECT p.relid AS relation FROM pg_partition_tree('pgqueue_archived_message') AS p
        WHERE p.isleaf AND p.level > 0
        UNION ALL
        SELECT unnest('{pgqueue_dead_letter, pgqueue_log}'::regclass[])
    ) AS t JOIN pg_class AS c ON c.oid = t.relation
    WHERE c.relname::text >= p_after ->> 'table' AND (p_after ? 'block' OR c.relname::text > p_after ->> 'table')
    ORDER BY c.relname::text
    LIMIT 1;
    IF FOUND THEN
        SELECT e.* INTO v_step FROM pgqueue_erase_range(v_table.relation, p_queue, v_names,
            CASE WHEN v_table.name = p_after ->> 'table' THEN (p_after ->> 'block')::bigint ELSE 0 END, p_dry_run) AS e;
        removed := jsonb_build_object(v_table.kind, v_step.removed);
        reached := jsonb_strip_nulls(jsonb_build_object('table', v_table.name, 'block', v_step.block));
    ELSIF p_dry_run OR pg_try_advisory_xact_lock(7205, 2) AND pg_try_advisory_xact_lock(7205, 3)
        AND cardinality(v_ids) = cardinality(ARRAY(
            SELECT c.id FROM pgqueue_channel AS c WHERE c.id = ANY (v_ids) FOR NO KEY UPDATE SKIP LOCKED)) THEN
        IF NOT p_dry_run THEN
            IF to_regproc('pgqueue_batch_erase') IS NOT NULL THEN
                v_batches := pgqueue_batch_erase(p_queue, v_names, false);
            END IF;
            -- Beside a producer the channel is empty only together with its release. A released channel delivers, even
            -- when it is paused, so one with more than this is not released.
            SELECT e.* INTO v_step
            FROM pgqueue_erase_messages(v_ids, p_force, false, p_limit, 9223372036854775807) AS e;
            removed := jsonb_strip_nulls(jsonb_build_object('message', v_step.messages, 'batch', v_batches));
        END IF;
        -- Both locks mean that no other transaction writes these figures meanwhile.
        FOREACH v_name IN ARRAY ARRAY['activity', 'backlog', 'tally', 'unarchived', 'unarchived_total'] LOOP
            removed := removed || jsonb_build_object(v_name,
                pgqueue_erase_rows(('pgqueue_' || v_name)::regclass, p_queue, v_names, p_dry_run));
        END LOOP;
        IF to_regproc('pgqueue_erase_pipeline') IS NOT NULL THEN
            v_pipeline := pgqueue_erase_pipeline(p_queue, v_names, p_dry_run);
        END IF;
        v_schedules := ARRAY(SELECT s.name FROM pgqueue_schedule AS s
            WHERE s.queue = p_queue AND s.channel = ANY (v_names) FOR UPDATE SKIP LOCKED);
        v_ticks := ARRAY(SELECT t.id FROM pgqueue_schedule_tick AS t
            WHERE t.schedule = ANY (v_schedules) FOR UPDATE SKIP LOCKED);
        removed := removed || v_pipeline || jsonb_build_object('schedule', cardinality(v_schedules),
            'schedule_tick', cardinality(v_ticks), 'channel', cardinality(v_ids));
        IF NOT p_dry_run THEN
            DELETE FROM pgqueue_unique_key AS k WHERE k.channel_id = ANY (v_ids);
            DELETE FROM pgqueue_schedule AS s WHERE s.name = ANY (v_schedules);
            DELETE FROM pgqueue_schedule_tick AS t WHERE t.id = ANY (v_ticks);
            UPDATE pgqueue_channel AS c
            SET released_at = clock_timestamp()
            WHERE c.id = ANY (v_ids) AND c.released_at IS NULL AND pgqueue_count_live(c.id) = 0;
        END IF;
        outcome := 'erased';
    ELSE
        outcome := 'busy';
    END IF;
EXCEPTION WHEN lock_not_available THEN
    removed := '{}';
    leased := 0;
    reached := p_after;
    outcome := 'busy';
END;
$$;
