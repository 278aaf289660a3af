INSERT INTO raw_message (payload) SELECT :payload::jsonb FROM generate_series(1, :batch::int);
