SELECT count(*) FROM pgmq.send_batch('benchmark', array_fill('{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}'::jsonb, ARRAY[%(messages)s]));
