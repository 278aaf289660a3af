SELECT row_enqueue('c' || %(channel)s::int, '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}')
