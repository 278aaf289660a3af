-- Adds storage settings and rules that the models cannot express to the tables that Django made.
-- The message table churns: vacuum by number of dead rows, not by share of the table, and without pauses. Room in each
-- page keeps updates on their page.
ALTER TABLE pgqueue_message SET (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000
);
ALTER TABLE pgqueue_message ALTER COLUMN payload SET DEFAULT '{}';
ALTER TABLE pgqueue_worker SET (fillfactor = 50);
ALTER TABLE pgqueue_dead_letter ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
-- A transaction that cannot see the release of a channel has a smaller xid (pgqueue_remove_released).
ALTER TABLE pgqueue_channel ADD COLUMN released_xid xid8;

-- These rules refuse values that no verb sets. Configuration is hardly ever written, so a CHECK costs nothing here; a
-- trigger checks messages. Times are within the years that Python and Spark have in every time zone; NULL is none.
ALTER TABLE pgqueue_channel
    ADD CONSTRAINT pgqueue_channel_full_policy CHECK (full_policy IN ('error', 'drop', 'drop_oldest', 'replace')),
    ADD CONSTRAINT pgqueue_channel_archive CHECK (archive IN ('full', 'outcome', 'none')),
    ADD CONSTRAINT pgqueue_channel_release_longest CHECK (release_interval <= '365000 days'),
    ADD CONSTRAINT pgqueue_channel_context CHECK (jsonb_typeof(context) = 'object'
        AND pg_column_size(context) <= 67108864),
    ADD CONSTRAINT pgqueue_channel_times CHECK (
        least(created_at, changed_at, paused_at, paused_until, released_at) >= '0002-01-01 00:00+00'
        AND greatest(created_at, changed_at, paused_at, paused_until, released_at) < '9999-01-01 00:00+00');
ALTER TABLE pgqueue_queue
    ADD CONSTRAINT pgqueue_queue_archive CHECK (archive IN ('full', 'outcome', 'none')),
    ADD CONSTRAINT pgqueue_queue_retention CHECK (
        least(retention, dead_letter_retention) > '0' AND greatest(retention, dead_letter_retention) <= '365000 days'),
    ADD CONSTRAINT pgqueue_queue_times CHECK (
        least(paused_at, paused_until) >= '0002-01-01 00:00+00'
            AND greatest(paused_at, paused_until) < '9999-01-01 00:00+00');
