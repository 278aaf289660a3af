SELECT count(*) FILTER (WHERE result_code = 1) AS taken, max(metadata ->> 'id') AS id,
       max(metadata ->> 'num_attempts') AS attempts
  FROM lonnymq.message_dequeue(60000) \gset
\if :taken = 0
\sleep 1 ms
\else
SELECT lonnymq.message_delete(:id, :attempts);
\endif
