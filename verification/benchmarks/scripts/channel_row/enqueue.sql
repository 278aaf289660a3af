\set channel random(1, :channels)
SELECT row_enqueue('c' || :channel, '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}');
