SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       count(*) AS enqueued,
       count(*) FILTER (WHERE status = 'SUCCESS') AS completed
  FROM dbos.workflow_status
 WHERE queue_name = 'benchmark';
