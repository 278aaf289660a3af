SELECT lonnymq.channel_policy_set('c' || n, 2147483647, 2147483647, 0) FROM generate_series(1, %(channels)s) AS n;
-- message_create would add the row itself, but fails if two sessions do so at once.
INSERT INTO lonnymq.channel_state (id, max_concurrency, max_size, release_interval_ms, current_size,
       current_concurrency, dequeue_prev_at)
SELECT id, max_concurrency, max_size, release_interval_ms, 0, 0, lonnymq.epoch() FROM lonnymq.channel_policy;
