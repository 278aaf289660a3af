-- Creates the table of steps. Only the functions of the app write it.

-- A row is what a step of a message has returned. It goes with the message: into the dead letters, out of them by a
-- redrive, and it is deleted when the message or the dead letter is.
-- message_id  a message or a dead letter
-- kind   step | cursor | sleep | wait; each kind has its own names
-- value  JSON, in the stored form of a codec if there is one; of a wait the payload of its event, NULL: none came
-- until  a sleep: its end. A wait: its timeout, NULL from when it is decided on
-- leased_at  of the lease that began to sleep or wait: a message with a later lease has gone on
CREATE TABLE pgqueue_step (
    message_id bigint NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    value jsonb,
    until timestamptz,
    leased_at timestamptz,
    kept_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (message_id, kind, name)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
