-- Creates the table of progress. Only the functions of the app write it.

-- A row says how far the handler of a message is. It is updated in place, and stays when the message is settled, until a
-- prune deletes it.
-- leased_at   of the lease that wrote it: a later lease overwrites it, an earlier one does not
-- started_at  its first report; updated_at: its last one, which has no index, so that updates are cheap
CREATE TABLE pgqueue_progress (
    message_id bigint PRIMARY KEY,
    channel_id bigint NOT NULL,
    leased_at timestamptz NOT NULL,
    done double precision NOT NULL,
    total double precision,
    note text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pgqueue_progress_started ON pgqueue_progress (started_at);
CREATE INDEX pgqueue_progress_channel ON pgqueue_progress (channel_id);
