\set channel random(1, :channels)
SELECT id FROM pgqueue_enqueue('benchmark.noop', '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}', 'c' || :channel);
