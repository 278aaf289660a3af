-- Storage settings of the tables that Django made, and what its models cannot say.
-- The message table churns: vacuum by number of dead rows, not by share of the table, and without pauses. Room in each page keeps
-- updates on their page.
ALTER TABLE pgqueue_message SET (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 100000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000
);
ALTER TABLE pgqueue_message ALTER COLUMN payload SET DEFAULT '{}';
ALTER TABLE pgqueue_worker SET (fillfactor = 50);
ALTER TABLE pgqueue_dead_letter ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
