SELECT count(*) FROM pgmq.send_batch('benchmark', array_fill(:payload::jsonb, ARRAY[:batch::int]));
