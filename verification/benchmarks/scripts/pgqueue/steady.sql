\set channel random(1, :channels)
SELECT id FROM pgqueue_enqueue('benchmark.noop', '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}', 'c' || :channel);
SELECT count(*) AS taken, array_agg(id) AS ids, array_agg(token) AS tokens FROM pgqueue_dequeue('default', 1, '60 s', 'benchmark') \gset
\if :taken > 0
SELECT count(*) FROM pgqueue_complete(:ids, :tokens);
\endif
