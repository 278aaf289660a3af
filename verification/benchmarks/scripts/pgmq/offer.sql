-- One queue is one channel, whatever its number.
SELECT pgmq.send('benchmark', '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}') WHERE %(channel)s::int > 0
