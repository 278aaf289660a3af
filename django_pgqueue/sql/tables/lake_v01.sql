-- What the models cannot say.
ALTER TABLE pgqueue_queue_metric
    ADD CONSTRAINT pgqueue_queue_metric_once UNIQUE NULLS NOT DISTINCT (grain, bucket_at, queue, channel, handler);

-- The order of commits of the dead letters, for exports. A redrive updates them, so they are not read by place, as the archive is.
CREATE INDEX pgqueue_dead_letter_xid ON pgqueue_dead_letter (xid, id);
