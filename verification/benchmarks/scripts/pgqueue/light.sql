-- One channel after the other, at an even pace: what comes twice in a round of the line waits for the next one.
\set n :n + 1
\set channel :first + :n % :light
SELECT id FROM pgqueue_enqueue('benchmark.noop', '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}', 'c' || :channel);
\sleep :pause us
