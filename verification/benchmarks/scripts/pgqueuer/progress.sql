SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       e.enqueued,
       e.enqueued - (SELECT count(*) FROM pgqueuer) AS completed
  FROM (SELECT coalesce(pg_sequence_last_value('pgqueuer_id_seq'), 0) AS enqueued) AS e;
