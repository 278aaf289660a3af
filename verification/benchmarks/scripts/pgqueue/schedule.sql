INSERT INTO pgqueue_message (channel_id, handler, payload, status, dequeue_at)
SELECT c.id, 'benchmark.noop', '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}',
       3, clock_timestamp() + interval '1 day' + n * interval '1 ms'
  FROM generate_series(1, %(messages)s) AS n
  JOIN pgqueue_channel AS c ON c.name = 'c' || 1 + n %% %(channels)s;
