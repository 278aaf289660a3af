INSERT INTO pgqueue_channel (queue, name) SELECT 'default', 'c' || n FROM generate_series(1, %(channels)s) AS n;
