-- Messages that were archived before the benchmark, in older partitions, are not counted.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       coalesce(pg_sequence_last_value('pgqueue_message_id_seq'), 0) AS enqueued,
       (SELECT count(*) FROM pgqueue_archived_message WHERE archived_at >= now() - interval '1 day') AS completed;
