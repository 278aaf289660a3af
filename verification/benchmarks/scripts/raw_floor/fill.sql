INSERT INTO raw_message (payload)
SELECT '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}'
  FROM generate_series(1, %(messages)s);
