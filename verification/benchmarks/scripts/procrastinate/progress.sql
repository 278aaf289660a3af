SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       coalesce(pg_sequence_last_value('procrastinate_jobs_id_seq'), 0) AS enqueued,
       (SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded') AS completed;
