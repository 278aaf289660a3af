SELECT count(*) FROM procrastinate_jobs WHERE status = 'failed';
