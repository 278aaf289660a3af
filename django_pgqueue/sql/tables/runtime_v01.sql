-- The tables behind the line: written by the functions alone, many times per second.
-- They have no foreign keys and no surplus index, because every dequeue pays for each of them.

-- The place of an active channel in its queue's line.
-- seq          position; the lane with the smallest seq is served next, a served lane goes to the tail (seq = nextval)
-- parked_until set: out of the line until then ('infinity': until something happens to the channel)
-- floor_*      no ready message of the channel sorts before this key
-- served       messages taken in the present turn (a channel of weight w takes w messages a turn)
-- ahead        how many messages the last look saw at or behind the floor, less those taken since: until then nobody looks again
-- next_at      token bucket of release_interval: the theoretical arrival time of the next message (GCRA)
-- lease_floor  no live lease of the channel is older than this
CREATE SEQUENCE pgqueue_lane_seq;
CREATE TABLE pgqueue_lane (
    seq bigint NOT NULL DEFAULT nextval('pgqueue_lane_seq'),
    channel_id bigint NOT NULL,
    queue varchar(100) COLLATE "C" NOT NULL,
    parked_until timestamptz,
    floor_rank smallint NOT NULL,
    floor_at timestamptz NOT NULL,
    floor_id bigint NOT NULL,
    served integer NOT NULL DEFAULT 0,
    ahead integer NOT NULL DEFAULT 0,
    next_at timestamptz NOT NULL DEFAULT '-infinity',
    lease_floor timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pgqueue_lane_head ON pgqueue_lane (queue, seq) WHERE parked_until IS NULL;
CREATE INDEX pgqueue_lane_parked ON pgqueue_lane (queue, parked_until) WHERE parked_until IS NOT NULL;
CREATE INDEX pgqueue_lane_channel ON pgqueue_lane (channel_id, seq);

-- Append-only news of a channel, folded into its lane by whoever dequeues next.
-- kind 1: messages became ready, the first of them at this key; kind 0: look at the channel again (limits changed, a place came free).
-- lazy: the writer saw the channel in the line, with a floor below this key, so nobody needs to hurry. It is still needed: the lane may
--   have gone before the message was committed.
CREATE TABLE pgqueue_arrival (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    queue varchar(100) COLLATE "C" NOT NULL,
    channel_id bigint NOT NULL,
    kind smallint NOT NULL DEFAULT 1,
    lazy boolean NOT NULL DEFAULT false,
    messages integer NOT NULL DEFAULT 0,
    floor_rank smallint,
    floor_at timestamptz,
    floor_id bigint
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pgqueue_arrival_xid ON pgqueue_arrival (queue, lazy, xid);

-- Lower bounds for scans of the two tables above, and of leases and schedules, one row a tick; the row with the largest id counts.
-- They keep every scan off the dead entries that a pinned xmin horizon leaves at the start of an index.
-- expiry_from  no lease expires before this; due_from: nothing is scheduled for a time before this
-- watched_at   what these two may rise to, as soon as all transactions up to watched_xid have ended
-- id: counted by the ticker. Sequences of a database that was made from a template go back when the server crashes soon after.
CREATE TABLE pgqueue_floor (
    id bigint PRIMARY KEY,
    ticked_at timestamptz NOT NULL,
    arrival_xid xid8 NOT NULL,
    late_xids xid8[] NOT NULL,
    lane_seq bigint NOT NULL,
    parked_from timestamptz NOT NULL,
    next_xid xid8 NOT NULL,
    next_lane_seq bigint NOT NULL,
    expiry_from timestamptz NOT NULL DEFAULT '-infinity',
    due_from timestamptz NOT NULL DEFAULT '-infinity',
    watched_at timestamptz NOT NULL DEFAULT '-infinity',
    watched_xid xid8 NOT NULL DEFAULT '0'
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
INSERT INTO pgqueue_floor (id, ticked_at, arrival_xid, late_xids, lane_seq, parked_from, next_xid, next_lane_seq)
VALUES (1, clock_timestamp(), '0', '{}', 0, '-infinity', '0', 0);

-- Live messages of the channels that have a max_size: the count, and what left since (folded in by the next enqueue).
CREATE TABLE pgqueue_channel_size (
    channel_id bigint PRIMARY KEY,
    live bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE pgqueue_departure (
    channel_id bigint NOT NULL,
    messages bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX pgqueue_departure_channel ON pgqueue_departure (channel_id);

-- Who sleeps until something arrives on a queue. NOTIFY takes a database-wide lock at commit, so it is sent to sleepers only.
CREATE TABLE pgqueue_waiter (
    queue varchar(100) COLLATE "C" NOT NULL,
    wait_until timestamptz NOT NULL,
    worker text NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX pgqueue_waiter_queue ON pgqueue_waiter (queue, wait_until);

-- When the server log was last warned, in seconds since 1970. Sequences, because these must survive a rollback and never be waited for.
CREATE SEQUENCE pgqueue_warned_dead_letter;
CREATE SEQUENCE pgqueue_warned_lease_expired;

-- When the server log was last warned that a queue is not picked up: each queue has its own clock, or one would hide the others.
CREATE TABLE pgqueue_queue_warning (
    queue varchar(100) COLLATE "C" PRIMARY KEY,
    warned_at timestamptz NOT NULL
);

-- What the archive held in partitions that retention has dropped, so that totals stay true.
CREATE TABLE pgqueue_tally (
    queue varchar(100) COLLATE "C" NOT NULL,
    channel varchar(200) COLLATE "C" NOT NULL,
    messages bigint NOT NULL,
    PRIMARY KEY (queue, channel)
);
