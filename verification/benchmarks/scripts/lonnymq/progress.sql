-- Without an archive, what is done is what was ever numbered and is no longer there.
WITH live AS (SELECT count(*) AS waiting FROM lonnymq.message)
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       coalesce(pg_sequence_last_value('lonnymq.message_id_seq'), 0) AS enqueued,
       coalesce(pg_sequence_last_value('lonnymq.message_id_seq'), 0) - waiting AS completed
  FROM live;
