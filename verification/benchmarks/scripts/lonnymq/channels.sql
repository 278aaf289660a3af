SELECT lonnymq.channel_set('c' || n, 2147483647, 2147483647, 0) FROM generate_series(1, %(channels)s) AS n;
