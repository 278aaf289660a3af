SELECT (SELECT count(*) FROM awa.dlq_entries) + (SELECT count(*) FROM awa.done_entries WHERE state = 'failed');
