SELECT count(*) AS taken, array_agg(msg_id) AS ids, max(msg_id) AS id FROM pgmq.read('benchmark', 60, :batch) \gset
\if :taken = 0
\sleep 1 ms
\elif :batch = 1
SELECT pgmq.delete('benchmark', :id::bigint);
\else
SELECT count(*) FROM pgmq.delete('benchmark', :ids::bigint[]);
\endif
