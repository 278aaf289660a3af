INSERT INTO row_message (channel_id, payload, dequeue_at)
SELECT 1 + n %% %(channels)s,
       '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}',
       clock_timestamp()
  FROM generate_series(1, %(messages)s) AS n;
UPDATE row_channel AS c
   SET size = m.size, next_at = m.next_at
  FROM (SELECT channel_id, count(*) AS size, min(dequeue_at) AS next_at FROM row_message GROUP BY channel_id) AS m
 WHERE m.channel_id = c.id;
