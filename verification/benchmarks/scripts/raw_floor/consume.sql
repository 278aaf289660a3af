SELECT count(*) AS taken, array_agg(id) AS ids FROM raw_dequeue(:batch) \gset
\if :taken = 0
\sleep 1 ms
\endif
