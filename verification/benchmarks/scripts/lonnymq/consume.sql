SELECT count(*) FILTER (WHERE result_code = 3) AS taken, max(metadata ->> 'id') AS id,
       max(metadata ->> 'num_attempts') AS attempts
  FROM lonnymq.message_dequeue(60000) \gset
\if :taken = 0
\sleep 1 ms
\else
SELECT lonnymq.message_complete(:id, :attempts);
\endif
