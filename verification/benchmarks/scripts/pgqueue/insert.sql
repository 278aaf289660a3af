INSERT INTO pgqueue_message (channel_id, handler, payload) VALUES (1, 'benchmark.noop', '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}') RETURNING id;
