-- The tables of the engine. A message waits in a lane, lanes stand in the line of their queue, meters hold the limits,
-- and notes say what has happened since the line was last looked after.

-- A meter is a limit of any kind: of a channel, of a queue, or one that a name, a handler or a breaker shares.
-- step, burst   a token each step, at most burst of them; a message takes its cost
-- closed_until  no room until then, because of closed_for: a pause, or an open breaker
-- shared        lanes of several queues may wait for it
-- sides         its max_concurrency is divided among so many levels, so that as many calls charge it at once
CREATE TABLE pgqueue_meter (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name varchar(300) COLLATE "C" NOT NULL UNIQUE,
    shared boolean NOT NULL DEFAULT false,
    sides smallint NOT NULL DEFAULT 1 CHECK (sides BETWEEN 1 AND 16),
    max_concurrency integer,
    max_cost integer,
    step interval,
    burst integer NOT NULL DEFAULT 1,
    closed_until timestamptz,
    closed_for text
);
-- A level is what counts against one side of a meter now. Its row is locked with SKIP LOCKED before it is written. The
-- newest version has the highest seq, so that no look walks the versions that an old snapshot keeps.
-- running, cost   leased messages that are charged to the meter, and what they cost
-- tokens          in the bucket at filled_at; below 0 while it has debts
CREATE SEQUENCE pgqueue_level_seq;
CREATE TABLE pgqueue_level (
    meter_id bigint NOT NULL,
    side smallint NOT NULL DEFAULT 0,
    seq bigint NOT NULL DEFAULT 0,
    running integer NOT NULL DEFAULT 0,
    cost bigint NOT NULL DEFAULT 0,
    tokens double precision,
    filled_at timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
CREATE INDEX pgqueue_level_newest ON pgqueue_level (meter_id, side, seq);
ALTER TABLE pgqueue_level REPLICA IDENTITY FULL;

-- line, pass   the sequences of the queue's cursor: where its round is (seq × 1024 + messages of that turn), and where
--              the present pass ends (seq × 1024 + how many times its weight a turn has)
CREATE TABLE pgqueue_queue (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name varchar(100) COLLATE "C" NOT NULL UNIQUE,
    meter_id bigint REFERENCES pgqueue_meter,
    fairness varchar(10) NOT NULL DEFAULT 'turns',
    max_share double precision,
    archive varchar(10) NOT NULL DEFAULT 'full',
    line regclass,
    pass regclass
);
-- The line of a queue is looked after by whoever has the advisory lock (7210, id of the queue): it folds notes, opens and
-- parks lanes. Everybody else tries the lock, and takes messages of open lanes meanwhile. A call that finds nothing writes
-- nothing, so that it has no commit to wait for while it has the lock.
CREATE TABLE pgqueue_channel (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue_id integer NOT NULL,
    name varchar(200) COLLATE "C" NOT NULL,
    weight integer NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    meter_id bigint REFERENCES pgqueue_meter,
    ordered boolean NOT NULL DEFAULT false,
    max_size integer,
    archive varchar(10),
    context jsonb NOT NULL DEFAULT '{}',
    released_at timestamptz,
    UNIQUE (queue_id, name)
);
-- Handlers whose messages are charged to a meter, whatever limits a message names.
CREATE TABLE pgqueue_meter_handler (
    handler varchar(200) COLLATE "C" NOT NULL,
    meter_id bigint NOT NULL REFERENCES pgqueue_meter,
    PRIMARY KEY (handler, meter_id)
);

-- A message. INSERT, the ORM and COPY address the parent and fire its trigger; functions, which have checked, write the
-- partition, append their note themselves, and pay for no trigger.
-- lane      where it waits: 0 is the channel's own lane
-- charged   while it is leased: the sides of meters that count it, each meter_id × 16 + side
-- status    1 ready, 2 leased, 3 scheduled
CREATE SEQUENCE pgqueue_message_id_seq;
CREATE TABLE pgqueue_message (
    id bigint NOT NULL DEFAULT nextval('pgqueue_message_id_seq'),
    channel_id bigint NOT NULL,
    lane bigint NOT NULL DEFAULT 0,
    handler varchar(200) NOT NULL,
    payload jsonb NOT NULL DEFAULT '{}',
    body bytea,
    headers jsonb,
    priority smallint NOT NULL DEFAULT 0,
    dequeue_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    status smallint NOT NULL DEFAULT 1,
    attempts integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 5,
    backoff interval,
    backoff_factor double precision,
    backoff_longest interval,
    dedupe_key varchar(200),
    order_key varchar(200),
    order_place bigint,
    limits bigint[],
    cost integer,
    charged bigint[],
    state jsonb,
    errors jsonb,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    leased_at timestamptz,
    last_leased_at timestamptz,
    lease_expires_at timestamptz,
    lease_token uuid,
    settled_token uuid,
    worker varchar(200),
    redriven_from bigint,
    cancelled_at timestamptz,
    cancel_reason text
) PARTITION BY LIST (channel_id);
CREATE TABLE pgqueue_live PARTITION OF pgqueue_message DEFAULT
WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE pgqueue_live ADD PRIMARY KEY (id);
CREATE INDEX pgqueue_live_ready ON pgqueue_live (channel_id, lane, (-priority), dequeue_at, id) WHERE status = 1;
CREATE INDEX pgqueue_live_expiry ON pgqueue_live (lease_expires_at) WHERE lease_expires_at IS NOT NULL;
CREATE INDEX pgqueue_live_due ON pgqueue_live (dequeue_at) WHERE status = 3;
CREATE UNIQUE INDEX pgqueue_live_dedupe ON pgqueue_live (channel_id, dedupe_key) WHERE dedupe_key IS NOT NULL;
-- Of a key: those that have been delivered before (attempts > 0) first, then by place.
CREATE INDEX pgqueue_live_order ON pgqueue_live
    (channel_id, order_key, (attempts = 0), coalesce(order_place, id)) WHERE order_key IS NOT NULL;
CREATE TABLE pgqueue_archived_message (
    id bigint NOT NULL, queue varchar(100) NOT NULL, channel varchar(200) NOT NULL, handler varchar(200) NOT NULL,
    payload jsonb, body bytea, headers jsonb, priority smallint, attempts integer, max_attempts integer,
    created_at timestamptz, dequeue_at timestamptz, leased_at timestamptz, lease_token uuid,
    archived_at timestamptz NOT NULL, outcome varchar(20), result jsonb, state jsonb, errors jsonb,
    dedupe_key varchar(200), worker varchar(200), redriven_from bigint, started_at timestamptz, order_key varchar(200),
    limits bigint[], cost integer
) PARTITION BY RANGE (archived_at);
CREATE TABLE pgqueue_archived_all PARTITION OF pgqueue_archived_message DEFAULT;
CREATE INDEX ON pgqueue_archived_message (id);
CREATE INDEX ON pgqueue_archived_message (archived_at);

-- A lane is a list of messages that wait together: the channel's own (lane 0, its head), one for each set of shared
-- limits that its messages have, and one for each order key while it is contended. The newest version of a row has the
-- highest seq.
-- stands        1 in the line, 2 fresh: it comes before the line, 3 open, beside its head; NULL out of the line. A head
--               stands while it or a lane beside it is open
-- limits        the shared meters that its messages are charged to, beside the channel's own
-- order_key     the lane of this key
-- sides         of a head: how many lanes beside it are open
-- served        while it is fresh: the messages of its turn that it has had
-- keyed         messages with an order key may be in it
-- parked_for    why none of its own messages may go: empty, full, cost, rate, closed, order, key; NULL: it is open
-- meter_id      what it waits for; wants: the cost that its first message needs
-- parked_until  when it is looked at again at the latest. Of the lanes of a queue that wait for one meter, the first has
--               the time
-- current_id    parked for order: the message that holds the channel until it is settled for good
-- floor_*       no ready message of the lane sorts before this key
CREATE SEQUENCE pgqueue_lane_seq;
CREATE TABLE pgqueue_lane (
    seq bigint NOT NULL,
    channel_id bigint NOT NULL,
    lane bigint NOT NULL,
    queue_id integer NOT NULL,
    stands smallint,
    limits bigint[],
    order_key varchar(200),
    sides integer NOT NULL DEFAULT 0,
    served smallint NOT NULL DEFAULT 0,
    keyed boolean NOT NULL DEFAULT false,
    parked_for varchar(10),
    meter_id bigint,
    wants integer,
    parked_until timestamptz,
    current_id bigint,
    floor_rank smallint NOT NULL DEFAULT 32767,
    floor_at timestamptz NOT NULL DEFAULT 'infinity',
    floor_id bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pgqueue_lane_line ON pgqueue_lane (queue_id, stands, seq) WHERE stands < 3;
CREATE INDEX pgqueue_lane_side ON pgqueue_lane (channel_id, floor_rank, floor_at, floor_id) WHERE stands = 3;
CREATE INDEX pgqueue_lane_newest ON pgqueue_lane (channel_id, lane, seq);
CREATE INDEX pgqueue_lane_waits ON pgqueue_lane (meter_id, queue_id, seq) WHERE meter_id IS NOT NULL;
CREATE INDEX pgqueue_lane_due ON pgqueue_lane (queue_id, parked_until) WHERE parked_until < 'infinity';
ALTER TABLE pgqueue_lane REPLICA IDENTITY FULL;

-- A note says what has happened, in the transaction that made it so; the next holder of the line folds it.
-- channel_id, lane, rank, at, id   a message is ready at this key; keyed: it has an order key
-- ended        the message, of an ordered channel or with an order key, is settled for good
-- meter_id, side  leases that were charged to the meter have ended: freed of them, which cost so much; spent: what
--              messages cost beyond that; none of these: its limits have changed
-- lazy         nothing can be served because of it that could not be served without: it may wait for some turns
CREATE TABLE pgqueue_note (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    queue_id integer NOT NULL,
    lazy boolean NOT NULL DEFAULT false,
    keyed boolean,
    rank smallint,
    freed integer,
    side smallint,
    channel_id bigint,
    lane bigint,
    at timestamptz,
    id bigint,
    ended bigint,
    meter_id bigint,
    cost bigint,
    spent bigint
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pgqueue_note_xid ON pgqueue_note (queue_id, lazy, xid);
ALTER TABLE pgqueue_note REPLICA IDENTITY FULL;

-- Lower bounds for the scans of one queue's lanes and notes: no scan walks the entries that died before. A tick writes
-- a row; that with the highest id counts.
-- note_xid     no note has a smaller xid, but for those of late_xids, which were open then
-- lane_seq     no lane in the line stands before this
-- next_*       what the two may rise to at the next tick
CREATE TABLE pgqueue_floor (
    queue_id integer NOT NULL,
    id bigint NOT NULL,
    ticked_at timestamptz NOT NULL,
    note_xid xid8 NOT NULL,
    late_xids xid8[] NOT NULL,
    lane_seq bigint NOT NULL,
    due_from timestamptz NOT NULL,
    next_xid xid8 NOT NULL,
    next_seq bigint NOT NULL,
    PRIMARY KEY (queue_id, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

CREATE TYPE pgqueue_delivery AS (
    id bigint, channel text, handler text, payload jsonb, body bytea, headers jsonb, priority smallint,
    attempts integer, max_attempts integer, token uuid, lease_expires_at timestamptz, state jsonb,
    created_at timestamptz, dequeue_at timestamptz, context jsonb, last_leased_at timestamptz
);
