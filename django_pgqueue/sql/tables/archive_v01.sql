-- The table holds settled messages, a partition for each day (UTC): retention drops whole partitions, so the archive
-- leaves no dead rows behind.
-- xid orders rows by commit horizon for readers that must not skip what a long transaction commits late.
-- started_at: when the handler of the last attempt started; NULL where the caller did not say how long it ran.
-- payload: NULL where only the outcome is archived. A message has one, if only the JSON null.
CREATE TABLE pgqueue_archived_message (
    id bigint NOT NULL,
    queue varchar(100) COLLATE "C" NOT NULL,
    channel varchar(200) COLLATE "C" NOT NULL,
    handler varchar(200) NOT NULL,
    payload jsonb,
    body bytea,
    headers jsonb,
    priority smallint NOT NULL,
    attempts integer NOT NULL,
    max_attempts integer NOT NULL,
    created_at timestamptz NOT NULL,
    dequeue_at timestamptz NOT NULL,
    leased_at timestamptz,
    lease_token uuid,
    archived_at timestamptz NOT NULL,
    outcome varchar(20) NOT NULL,
    result jsonb,
    state jsonb,
    errors jsonb,
    dedupe_key varchar(200),
    order_key varchar(200),
    worker varchar(200),
    redriven_from bigint,
    started_at timestamptz,
    limits bigint[],
    cost integer,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (id, archived_at)
) PARTITION BY RANGE (archived_at);

-- The index serves pgqueue_measure, which reads new rows, and lists by age. It knows ranges of blocks: settling does
-- not write to it.
CREATE INDEX pgqueue_archived_message_at
    ON pgqueue_archived_message USING brin (archived_at) WITH (pages_per_range = 32);

-- The table holds what handlers have logged (LOG_CAPTURE), a row for each delivery of a message, as a JSON text or in
-- the stored form of a codec. Only pgqueue_keep_logs writes it. A prune deletes rows as old as the archive keeps
-- messages.
CREATE TABLE pgqueue_log (
    message_id bigint NOT NULL,
    lease_token uuid NOT NULL,
    attempt integer NOT NULL,
    queue varchar(100) COLLATE "C" NOT NULL,
    channel varchar(200) COLLATE "C" NOT NULL,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    log jsonb NOT NULL,
    PRIMARY KEY (message_id, lease_token)
);
CREATE INDEX pgqueue_log_written ON pgqueue_log (written_at);

-- The table holds messages that were settled without an archive (archive = none): a row for each call, channel and
-- handler, one element of its arrays for each message. pgqueue_measure adds them to the figures of the dashboard and to
-- the total below, and deletes them; without a measurement, pgqueue_prune adds them to the total. waits, runs: seconds.
CREATE TABLE pgqueue_unarchived (
    queue varchar(100) COLLATE "C" NOT NULL,
    channel varchar(200) COLLATE "C" NOT NULL,
    handler varchar(200) NOT NULL,
    outcome varchar(20) NOT NULL,
    settled_at timestamptz NOT NULL,
    attempts integer[] NOT NULL,
    waits float8[] NOT NULL,
    runs float8[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
-- The index is of the kind of the archive's: rows that were deleted and cannot be vacuumed yet are not read again.
CREATE INDEX pgqueue_unarchived_at ON pgqueue_unarchived USING brin (settled_at) WITH (pages_per_range = 32);
-- It has no key: see the end of runtime_v01.sql.
ALTER TABLE pgqueue_unarchived REPLICA IDENTITY FULL;

-- The table counts messages that were settled without an archive. It is not pgqueue_tally, because a measurement and a
-- prune would wait for each other.
CREATE TABLE pgqueue_unarchived_total (
    queue varchar(100) COLLATE "C" NOT NULL,
    channel varchar(200) COLLATE "C" NOT NULL,
    messages bigint NOT NULL,
    PRIMARY KEY (queue, channel)
);
