INSERT INTO lonnymq.message (channel_id, content, is_locked, num_attempts, dequeue_at)
SELECT 'c' || 1 + n %% %(channels)s, convert_to('{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}', 'UTF8'), false, 0, lonnymq.epoch()
  FROM generate_series(1, %(messages)s) AS n;
UPDATE lonnymq.channel_state AS c
   SET current_size = m.size, message_id = m.id, message_dequeue_at = m.dequeue_at, dequeue_next_at = m.dequeue_at
  FROM (SELECT DISTINCT ON (channel_id) channel_id, id, dequeue_at, count(*) OVER (PARTITION BY channel_id) AS size
          FROM lonnymq.message
         ORDER BY channel_id, dequeue_at, id) AS m
 WHERE m.channel_id = c.id;
