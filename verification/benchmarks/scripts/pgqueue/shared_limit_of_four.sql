SELECT pgqueue_limit_set('benchmark', '{"max_concurrency": 4, "handlers": ["benchmark.noop"]}');
