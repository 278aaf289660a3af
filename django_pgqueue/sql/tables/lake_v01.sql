-- What the models cannot say.
ALTER TABLE pgqueue_queue_metric
    ADD CONSTRAINT pgqueue_queue_metric_once UNIQUE NULLS NOT DISTINCT (grain, bucket_at, queue, channel, handler);

-- The order of commits of the dead letters, for exports. A redrive updates them, so they are not read by place, as the archive is.
-- Without the id: while the table is empty, the planner would take this index for look-ups by id.
CREATE INDEX pgqueue_dead_letter_xid ON pgqueue_dead_letter (xid);
