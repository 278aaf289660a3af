-- Adds rules that the model of a schedule cannot express: enqueue must take its messages, and Python must be able to
-- read its times.
ALTER TABLE pgqueue_schedule
    ADD CONSTRAINT pgqueue_schedule_priority CHECK (priority >= -32767),
    ADD CONSTRAINT pgqueue_schedule_headers CHECK (jsonb_typeof(headers) = 'object'),
    ADD CONSTRAINT pgqueue_schedule_size CHECK (
        coalesce(pg_column_size(payload), 0) + coalesce(pg_column_size(headers), 0) <= 67000000),
    ADD CONSTRAINT pgqueue_schedule_longest_grace CHECK (grace <= '365000 days'),
    ADD CONSTRAINT pgqueue_schedule_times CHECK (
        least(created_at, next_fire_at, last_fired_at, removed_at) >= '0002-01-01 00:00+00'
        AND greatest(created_at, next_fire_at, last_fired_at, removed_at) < '9999-01-01 00:00+00');
ALTER TABLE pgqueue_schedule_tick
    ADD CONSTRAINT pgqueue_schedule_tick_times CHECK (
        least(tick_at, fired_at) >= '0002-01-01 00:00+00' AND greatest(tick_at, fired_at) < '9999-01-01 00:00+00');
