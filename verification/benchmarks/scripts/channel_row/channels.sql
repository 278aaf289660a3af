INSERT INTO row_channel (name) SELECT 'c' || n FROM generate_series(1, %(channels)s) AS n;
