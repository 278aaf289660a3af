UPDATE pgqueue_channel SET max_concurrency = 4 WHERE name <> 'default';
-- As if they had stood for long: for ten minutes after a change, more is counted.
UPDATE pgqueue_channel SET changed_at = NULL;
