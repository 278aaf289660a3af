-- Adds the storage settings and constraints that the models cannot express to the figures of the dashboard. Only
-- pgqueue_measure writes them.
ALTER TABLE pgqueue_activity
    ADD CONSTRAINT pgqueue_activity_once UNIQUE NULLS NOT DISTINCT (queue, channel, handler, minutes, bucket_at);
ALTER TABLE pgqueue_activity SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE pgqueue_backlog
    ADD CONSTRAINT pgqueue_backlog_once UNIQUE NULLS NOT DISTINCT (queue, channel);
ALTER TABLE pgqueue_backlog SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- The table holds one row for each measurement. The row with the largest id counts; those of the last hour show when an
-- older transaction began. measured_at: read before the snapshot was taken, so a transaction that is not in it yet
-- began later. counted_in: how long the count of the backlog took.
CREATE TABLE pgqueue_measurement (
    id bigint PRIMARY KEY,
    measured_at timestamptz NOT NULL,
    snapshot pg_snapshot NOT NULL,
    counted_at timestamptz NOT NULL,
    counted_in interval NOT NULL
);
