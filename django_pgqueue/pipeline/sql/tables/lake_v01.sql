-- What the models cannot say.
ALTER TABLE pgqueue_queue_metric
    ADD CONSTRAINT pgqueue_queue_metric_once UNIQUE NULLS NOT DISTINCT (grain, bucket_at, queue, channel, handler);
