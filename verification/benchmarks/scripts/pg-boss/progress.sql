SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       count(*) AS enqueued,
       count(*) FILTER (WHERE state = 'completed') AS completed
  FROM pgboss.job
 WHERE name = 'benchmark';
