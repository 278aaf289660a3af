-- What the models cannot say of the figures of the dashboard, which pgqueue_measure alone writes.
ALTER TABLE pgqueue_activity
    ADD CONSTRAINT pgqueue_activity_once UNIQUE NULLS NOT DISTINCT (queue, channel, minutes, bucket_at);
ALTER TABLE pgqueue_activity SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE pgqueue_backlog
    ADD CONSTRAINT pgqueue_backlog_once UNIQUE NULLS NOT DISTINCT (queue, channel);
ALTER TABLE pgqueue_backlog SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- What has been measured; the row with the largest id counts, those of the last hour tell when an older transaction
-- began. measured_at: before the snapshot was taken, so whoever is not in it yet began later. counted_in: how long the
-- count of the backlog took.
CREATE TABLE pgqueue_measurement (
    id bigint PRIMARY KEY,
    measured_at timestamptz NOT NULL,
    snapshot pg_snapshot NOT NULL,
    counted_at timestamptz NOT NULL,
    counted_in interval NOT NULL
);
