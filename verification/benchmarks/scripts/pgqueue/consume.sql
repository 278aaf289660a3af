SELECT count(*) AS taken, array_agg(id) AS ids, array_agg(token) AS tokens FROM pgqueue_dequeue('default', :batch, '60 s', 'benchmark') \gset
\if :taken = 0
\sleep 1 ms
\else
SELECT count(*) FROM pgqueue_complete(:ids, :tokens);
\endif
