-- Settled messages, a partition a day (UTC): retention drops whole partitions, so the archive leaves no dead rows behind.
-- xid orders rows by commit horizon for readers that must not skip what a long transaction commits late.
CREATE TABLE pgqueue_archived_message (
    id bigint NOT NULL,
    queue varchar(100) COLLATE "C" NOT NULL,
    channel varchar(200) COLLATE "C" NOT NULL,
    handler varchar(200) NOT NULL,
    payload jsonb NOT NULL,
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
    worker varchar(200),
    redriven_from bigint,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (id, archived_at)
) PARTITION BY RANGE (archived_at);

-- For pgqueue_measure, which reads what is new, and for lists by age. It knows ranges of blocks: settling does not write to it.
CREATE INDEX pgqueue_archived_message_at ON pgqueue_archived_message USING brin (archived_at) WITH (pages_per_range = 32);
