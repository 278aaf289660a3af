SELECT pgqueue_entries_walked() >= 200 AS crowded FROM pgqueue_tick() \gset
\if :crowded
\sleep 50 ms
\else
\sleep 200 ms
\endif
