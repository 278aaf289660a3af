\set channel random(1, :channels)
INSERT INTO pgqueue_message (channel_id, handler, payload) SELECT c.id, 'benchmark.noop', '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}' FROM pgqueue_channel AS c CROSS JOIN generate_series(1, :burst) WHERE c.queue = 'default' AND c.name = 'c' || :channel;
