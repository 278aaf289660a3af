UPDATE pgqueue_channel SET max_concurrency = 4 WHERE name <> 'default';
