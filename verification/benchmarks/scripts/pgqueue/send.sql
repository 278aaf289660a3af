SELECT count(*) FROM pgqueue_enqueue_many(array_fill('benchmark.noop'::text, ARRAY[:batch::int]), array_fill(:payload::jsonb, ARRAY[:batch::int]), array_fill('c1'::text, ARRAY[:batch::int]));
