-- As django_pgqueue/maintenance/floors.py does with the default TICK_INTERVAL.
SELECT pgqueue_entries_walked() >= :many AS crowded FROM pgqueue_tick() \gset
\if :crowded
\set many 50
\sleep 50 ms
\else
\set many 200
\sleep 200 ms
\endif
