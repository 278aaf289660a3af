SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       coalesce(pg_sequence_last_value('pgmq.q_benchmark_msg_id_seq'), 0) AS enqueued,
       (SELECT count(*) FROM pgmq.a_benchmark) AS completed;
