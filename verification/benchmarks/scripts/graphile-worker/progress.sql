SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       e.enqueued,
       e.enqueued - (SELECT count(*) FROM graphile_worker._private_jobs) AS completed
  FROM (SELECT coalesce(pg_sequence_last_value(
                   pg_get_serial_sequence('graphile_worker._private_jobs', 'id')::regclass), 0) AS enqueued) AS e;
