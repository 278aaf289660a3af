SELECT raw_enqueue('{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}');
SELECT count(*) FROM raw_dequeue(1);
