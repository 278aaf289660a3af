-- Its token is the number of the attempt.
SELECT (metadata ->> 'id')::bigint, lpad(metadata ->> 'num_attempts', 32, '0')::uuid
  FROM lonnymq.message_dequeue(60000) WHERE result_code = 1
