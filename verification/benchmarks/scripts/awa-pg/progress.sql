-- Completed ones are folded and pruned while it works; what is claimed runs ahead of them by the worker's slots at most.
SELECT extract(epoch FROM clock_timestamp())::float8 AS at,
       coalesce((SELECT sum(pg_sequence_last_value(format('awa.%I', seq_name)::regclass)) FROM awa.queue_enqueue_heads), 0)::bigint AS enqueued,
       coalesce((SELECT sum(pg_sequence_last_value(format('awa.%I', seq_name)::regclass)) FROM awa.queue_claim_heads), 0)::bigint AS completed;
