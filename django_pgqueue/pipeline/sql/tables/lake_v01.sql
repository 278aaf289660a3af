-- Adds the rule that the models cannot express: one row for each grain, time, queue, channel and handler.
ALTER TABLE pgqueue_queue_metric
    ADD CONSTRAINT pgqueue_queue_metric_once UNIQUE NULLS NOT DISTINCT (grain, bucket_at, queue, channel, handler);
