-- Test-only: triggers that write down what each committed transaction did to messages. Rolled back with it, or durable with it.
CREATE TABLE chaos_audit (
    seq bigint GENERATED ALWAYS AS IDENTITY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    event text NOT NULL,
    message bigint,
    channel bigint,
    status smallint,
    was_status smallint,
    attempts integer,
    was_attempts integer,
    max_attempts integer,
    token uuid,
    was_token uuid,
    settled_token uuid,
    leased_at timestamptz,
    expires_at timestamptz,
    was_expires_at timestamptz,
    dequeue_at timestamptz,
    priority smallint,
    key text,
    outcome text,
    detail jsonb
) WITH (autovacuum_enabled = false);

CREATE FUNCTION chaos_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO chaos_audit (event, message, channel, status, attempts, max_attempts, token, dequeue_at, priority, key, detail)
        SELECT 'created', n.id, n.channel_id, n.status, n.attempts, n.max_attempts, n.lease_token, n.dequeue_at, n.priority,
            CASE WHEN n.redriven_from IS NULL THEN n.payload ->> 'key' END,
            nullif(jsonb_strip_nulls(jsonb_build_object('handler', n.handler, 'redriven_from', n.redriven_from, 'limits', n.limits,
                'cost', n.cost, 'order_key', n.order_key, 'order_place', n.order_place, 'batch', n.flow,
                'after', CASE WHEN n.redriven_from IS NULL THEN n.headers -> 'batch' END,
                'awaits', CASE WHEN n.redriven_from IS NULL THEN n.headers -> 'after' END,
                'unique', CASE WHEN n.redriven_from IS NULL THEN n.headers -> 'unique' END, 'guarded', (
                    SELECT h.handler FROM pgqueue_limit_handler AS h WHERE h.handler = n.handler AND h.breaker))), '{}')
        FROM new_rows AS n ORDER BY n.id;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO chaos_audit (
            event, message, channel, status, was_status, attempts, was_attempts, max_attempts, token, was_token, settled_token, leased_at,
            expires_at, was_expires_at, dequeue_at, priority, detail)
        SELECT 'changed', n.id, n.channel_id, n.status, o.status, n.attempts, o.attempts, n.max_attempts, n.lease_token, o.lease_token,
            n.settled_token, n.leased_at, n.lease_expires_at, o.lease_expires_at, n.dequeue_at, n.priority,
            nullif(jsonb_strip_nulls(jsonb_build_object('waits_for', CASE WHEN n.waits_for >= 0 THEN n.waits_for END,
                -- The call asked for the messages of some handlers only.
                'chosen', CASE WHEN n.status = 2 AND o.status <> 2
                    AND current_query() LIKE '%pgqueue_dequeue_matching(%' THEN n.handler END,
                'replaced', CASE WHEN n.payload ->> 'key' <> o.payload ->> 'key' THEN n.payload ->> 'key' END,
                'interruption', CASE WHEN o.status = 2 AND n.status <> 2 AND n.errors IS DISTINCT FROM o.errors
                    THEN n.errors -> -1 -> 'interruption' END)), '{}')
        FROM new_rows AS n JOIN old_rows AS o ON o.id = n.id ORDER BY n.id;
    ELSE
        INSERT INTO chaos_audit (event, message, channel, was_status, was_attempts, was_token, was_expires_at)
        SELECT 'gone', o.id, o.channel_id, o.status, o.attempts, o.lease_token, o.lease_expires_at FROM old_rows AS o ORDER BY o.id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER zz_chaos_insert AFTER INSERT ON pgqueue_message REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION chaos_message();
CREATE TRIGGER zz_chaos_update AFTER UPDATE ON pgqueue_message REFERENCING NEW TABLE AS new_rows OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION chaos_message();
CREATE TRIGGER zz_chaos_delete AFTER DELETE ON pgqueue_message REFERENCING OLD TABLE AS old_rows
    FOR EACH STATEMENT EXECUTE FUNCTION chaos_message();

CREATE FUNCTION chaos_archived() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_audit (event, message, attempts, token, outcome)
    SELECT 'archived', n.id, n.attempts, n.lease_token, n.outcome FROM new_rows AS n ORDER BY n.id;
    RETURN NULL;
END $$;
CREATE TRIGGER zz_chaos_insert AFTER INSERT ON pgqueue_archived_message REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION chaos_archived();

CREATE FUNCTION chaos_dead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO chaos_audit (event, message, attempts, token, outcome)
        SELECT 'dead', n.id, n.attempts, n.lease_token, n.reason FROM new_rows AS n ORDER BY n.id;
    ELSE
        INSERT INTO chaos_audit (event, message, detail)
        SELECT 'redriven', n.id, jsonb_build_object('to', n.redriven_to) FROM new_rows AS n ORDER BY n.id;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER zz_chaos_insert AFTER INSERT ON pgqueue_dead_letter REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION chaos_dead();
CREATE TRIGGER zz_chaos_update AFTER UPDATE ON pgqueue_dead_letter REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION chaos_dead();

CREATE FUNCTION chaos_channel() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_audit (event, channel, key, detail)
    VALUES ('channel', NEW.id, NEW.name, jsonb_build_object(
        'max_concurrency', CASE WHEN NEW.paused_at IS NOT NULL THEN 0 ELSE NEW.max_concurrency END,
        'queue', NEW.queue, 'max_size', NEW.max_size, 'full_policy', NEW.full_policy, 'weight', NEW.weight,
        'release_interval', (extract(epoch FROM NEW.release_interval) * 1000000)::bigint, 'release_burst', NEW.release_burst,
        'ordered', NEW.ordered));
    RETURN NULL;
END $$;
CREATE TRIGGER zz_chaos AFTER INSERT OR UPDATE ON pgqueue_channel FOR EACH ROW EXECUTE FUNCTION chaos_channel();

CREATE FUNCTION chaos_queue() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_audit (event, key, detail)
    VALUES ('queue', NEW.name, jsonb_build_object(
        'max_concurrency', CASE WHEN NEW.paused_at IS NOT NULL THEN 0 ELSE NEW.max_concurrency END,
        'fairness', NEW.fairness, 'max_share', NEW.max_share));
    RETURN NULL;
END $$;
CREATE TRIGGER zz_chaos AFTER INSERT OR UPDATE ON pgqueue_queue FOR EACH ROW EXECUTE FUNCTION chaos_queue();

-- Records the list at the gate of a queue with limits: the leases that a dequeue has counted, and those it has taken.
CREATE FUNCTION chaos_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_audit (event, key, detail)
    VALUES ('gate', NEW.queue, jsonb_build_object('held', to_jsonb(NEW.held)));
    RETURN NULL;
END $$;
CREATE TRIGGER zz_chaos AFTER UPDATE ON pgqueue_gate FOR EACH ROW
    WHEN (OLD.held IS DISTINCT FROM NEW.held) EXECUTE FUNCTION chaos_gate();

CREATE FUNCTION chaos_limit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_audit (event, key, detail)
    VALUES ('limit', NEW.name, jsonb_build_object(
        'id', NEW.id, 'breaker', NEW.breaker_handler,
        'open_until', (extract(epoch FROM NEW.open_until) * 1000000)::bigint, 'max_cost', NEW.max_cost,
        'max_concurrency', CASE WHEN NEW.paused_at IS NOT NULL THEN 0 ELSE NEW.max_concurrency END));
    RETURN NULL;
END $$;
CREATE TRIGGER zz_chaos AFTER INSERT OR UPDATE ON pgqueue_limit FOR EACH ROW EXECUTE FUNCTION chaos_limit();

CREATE FUNCTION chaos_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'pgqueue_event' THEN
        INSERT INTO chaos_audit (event, key) VALUES ('event', NEW.name);
    ELSE
        INSERT INTO chaos_audit (event, message, key, outcome) VALUES ('step', NEW.message_id, NEW.name, NEW.kind);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER zz_chaos AFTER INSERT ON pgqueue_step FOR EACH ROW EXECUTE FUNCTION chaos_step();
CREATE TRIGGER zz_chaos AFTER INSERT ON pgqueue_event FOR EACH ROW EXECUTE FUNCTION chaos_step();
