CREATE SEQUENCE benchmark_key;
ALTER TABLE pgqueue_message ALTER COLUMN order_key SET DEFAULT nextval('benchmark_key')::text;
