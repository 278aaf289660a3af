\set channel random(1, :channels)
SELECT lonnymq.message_create('c' || :channel, convert_to('{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}', 'UTF8'), NULL);
SELECT count(*) FILTER (WHERE result_code = 1) AS taken, max(metadata ->> 'id') AS id,
       max(metadata ->> 'num_attempts') AS attempts
  FROM lonnymq.message_dequeue(60000) \gset
\if :taken > 0
SELECT lonnymq.message_delete(:id, :attempts);
\endif
