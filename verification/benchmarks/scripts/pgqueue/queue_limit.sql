SELECT pgqueue_queue_set('default', '{"max_concurrency": 1000}');
-- As if they had stood for long: for ten minutes after a change, more is counted.
UPDATE pgqueue_queue SET changed_at = changed_at - interval '11 minutes';
