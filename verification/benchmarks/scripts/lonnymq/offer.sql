SELECT lonnymq.message_create('c' || %(channel)s::int, convert_to('{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}', 'UTF8'), NULL)
