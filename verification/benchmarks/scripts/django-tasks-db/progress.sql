SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       count(*) AS enqueued,
       count(*) FILTER (WHERE status = 'SUCCESSFUL') AS completed
  FROM django_tasks_database_dbtaskresult;
