-- Adds the rules that the models cannot express: one row for each grain, time, queue, channel and handler; and which of
-- these names a row of a level has.
ALTER TABLE pgqueue_queue_metric
    ADD CONSTRAINT pgqueue_queue_metric_once UNIQUE NULLS NOT DISTINCT (grain, bucket_at, queue, channel, handler);
-- The doctor takes the statement of a missing index from this file, so each constraint has one of its own.
ALTER TABLE pgqueue_queue_metric
    ADD CONSTRAINT pgqueue_queue_metric_level CHECK (
        CASE level
            WHEN 'queue' THEN channel IS NULL AND handler IS NULL
            WHEN 'channel' THEN channel IS NOT NULL AND handler IS NULL
            WHEN 'handler' THEN channel IS NOT NULL AND handler IS NOT NULL
            ELSE false
        END);
