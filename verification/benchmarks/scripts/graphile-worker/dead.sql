SELECT count(*) FROM graphile_worker._private_jobs WHERE attempts >= max_attempts AND locked_at IS NULL;
