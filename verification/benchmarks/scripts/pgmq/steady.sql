SELECT pgmq.send('benchmark', '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}');
SELECT count(*) AS taken, max(msg_id) AS id FROM pgmq.read('benchmark', 60, 1) \gset
\if :taken > 0
SELECT pgmq.archive('benchmark', :id::bigint);
\endif
