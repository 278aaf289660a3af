-- Of 64 messages in a row, each of 16 channels has four.
CREATE SEQUENCE benchmark_key;
ALTER TABLE pgqueue_message ALTER COLUMN order_key SET DEFAULT (nextval('benchmark_key') / 64)::text;
