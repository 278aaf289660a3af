INSERT INTO pgqueue_channel (queue, name, max_concurrency, release_interval)
SELECT 'default', 'full' || n, CASE WHEN n %% 2 = 0 THEN 1 END, CASE WHEN n %% 2 = 1 THEN interval '1 day' END
  FROM generate_series(1, %(channels)s) AS n;
INSERT INTO pgqueue_message (channel_id, handler, payload)
SELECT c.id, 'benchmark.noop', '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}'
  FROM pgqueue_channel AS c CROSS JOIN generate_series(1, 2)
 WHERE c.name LIKE 'full%%';
