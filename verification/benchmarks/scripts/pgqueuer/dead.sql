SELECT count(*) FROM pgqueuer WHERE status = 'failed';
