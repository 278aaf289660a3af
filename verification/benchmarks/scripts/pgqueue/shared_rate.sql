SELECT pgqueue_limit_set('benchmark', '{"release_interval": "1 microsecond", "release_burst": 1000000, "handlers": ["benchmark.noop"]}');
