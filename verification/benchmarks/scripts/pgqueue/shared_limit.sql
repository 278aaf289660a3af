SELECT pgqueue_limit_set('benchmark', '{"max_concurrency": 1000, "handlers": ["benchmark.noop"]}');
