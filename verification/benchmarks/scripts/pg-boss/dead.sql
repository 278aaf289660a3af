SELECT count(*) FROM pgboss.job WHERE name = 'benchmark' AND state = 'failed';
