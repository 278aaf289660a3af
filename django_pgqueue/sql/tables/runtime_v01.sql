-- Creates the tables behind the line. Only the functions write them, many times per second.
-- They have no foreign keys and no surplus index, because every dequeue pays for each of them.

-- The functions repeat some numbers. This list says what each of them means, with the functions that have it.
-- status of a message: 1 ready, 2 leased, 3 scheduled (Message.Status in Python).
-- Advisory locks are tried and never waited for. 7205 stands for this package.
--   7205, 1      one tick at a time: tick
--   7205, 2      one prune at a time, and no deletion of dead letters beside it: prune, prune_queues,
--                delete_dead, channel_erase
--   7205, 3      one measurement at a time, and no prune of its totals beside it: measure, prune, channel_erase
--   7205, 4      one sweep at a time warns of queues that are not picked up: sweep
--   hash, 7210 to 7217  a dequeue passes beside the gate of a queue, or all of them: it holds the gate: enter_beside,
--                lock_gate
--   hash, 7205   one transaction at a time makes the lane of a channel, or the gate of a queue: lock_lane,
--                lock_gate; takes messages of an order key, with the channel in place of 7205: take_key, take_keyed,
--                release_key, release_keys
-- Sizes: a payload, a body and headers take 67108864 bytes (64 MiB) together. Times: a pause, a lease or a delay takes
-- 365000 days at most, and a time is in the years 2 to 9998, which Python and Spark can represent.
-- Intervals:
--   1 microsecond a redriven message of an ordered channel comes before those of its own enqueue: redrive
--   10 milliseconds   margin after the time of a rate: next_due
--   25 milliseconds   one call sets messages aside for so long: dequeue_many
--   1 second     margin below the oldest lease: allowance, limit_room; default of the first pause: backoff; shortest
--                pause: defer_unknown; a costly message keeps the others from the room of its limit: promote_within,
--                limit_room, next_due
--   5 seconds    pause between two looks at a limit that is new: allowance, sweep; margin for a late heartbeat:
--                reclaim; a ready message keeps no place of a shared limit any longer: promised
--   10 seconds   a process may be stopped for so long between its reading of the clock and its first write:
--                raise_floors, measure; maintenance counts as stopped: explain_message; pause
--                between two warnings: sweep
--   15 seconds   a worker that was silent for longer has no slots: share_limit
--   1 minute     a sleeper that did not come back: wait, prune_line; lease inside of one transaction: pop
--   10 minutes   transactions that still go by old limits have ended: allowance, queue_allowance, sweep
--   1 hour       a settlement that becomes visible later is in no figure: measure, measure_tidy, prune;
--                default of the longest pause: backoff
--   2 hours      retention of fine figures: measure_tidy
--   26 hours     retention of coarse figures: measure_tidy
--   1 day        retention of silent workers and of times of warnings: prune_line; of outcomes, and of breakers of
--                channels, after they count no more, and of changes that no worker has reported: prune_limits
--   1 year       retention of jobs of bulk enqueues: ingest_clean

-- A request is one message of pgqueue_enqueue_many; place: where it stands among them.
CREATE TYPE pgqueue_request AS (
    place bigint,
    handler text,
    payload jsonb,
    channel text,
    queue text,
    body bytea,
    headers jsonb,
    priority integer,
    dequeue_at timestamptz,
    delay interval,
    max_attempts integer,
    backoff interval,
    backoff_factor double precision,
    backoff_longest interval,
    dedupe_key text,
    limits jsonb,
    cost integer,
    order_key text
);

-- A delivery is what every way to take messages returns: the message, its channel with its context, and the lease.
CREATE TYPE pgqueue_delivery AS (
    id bigint,
    channel text,
    handler text,
    payload jsonb,
    body bytea,
    headers jsonb,
    priority smallint,
    attempts integer,
    max_attempts integer,
    token uuid,
    lease_expires_at timestamptz,
    state jsonb,
    created_at timestamptz,
    dequeue_at timestamptz,
    context jsonb,
    last_leased_at timestamptz
);

-- A row is the place of a channel in its queue's line. A channel gets its lane with its first message, and keeps it.
-- seq          position; the lane with the smallest seq is served next, and goes to the tail then (seq = nextval)
-- fresh        it has come back after its last place had passed: it is served before the other lanes, for one turn
-- parked_until set: out of the line until then ('infinity': until an event of the channel)
-- floor_*      no ready message of the channel sorts before this key; infinite: it has none
-- served       messages taken in the present turn
-- round        of the present turn, or of the last one while served is 0: its number x 2^20 + how often the weight of a
--              channel makes its turn (pgqueue_round)
-- ahead        how many messages the last look saw at or behind the floor, less those taken since: until then no
--              dequeue looks again
-- next_at      token bucket of release_interval: the theoretical arrival time of the next message (GCRA)
-- debt         next_at may be ahead of the clock by so many tokens beyond the burst, because messages have cost more
--              than the bucket had; NULL: by none
-- lease_floor  no live lease of the channel is older than this
-- current_id   of an ordered channel: the message that was taken last. Until it is settled, no other one is delivered,
--              also while it waits for a shared limit
CREATE SEQUENCE pgqueue_lane_seq;
CREATE TABLE pgqueue_lane (
    seq bigint NOT NULL DEFAULT 0,
    channel_id bigint NOT NULL,
    queue varchar(100) COLLATE "C" NOT NULL,
    fresh boolean NOT NULL DEFAULT false,
    parked_until timestamptz DEFAULT 'infinity',
    floor_rank smallint NOT NULL DEFAULT 32767,
    floor_at timestamptz NOT NULL DEFAULT 'infinity',
    floor_id bigint NOT NULL DEFAULT 0,
    served integer NOT NULL DEFAULT 0,
    round bigint NOT NULL DEFAULT 0,
    ahead integer NOT NULL DEFAULT 0,
    next_at timestamptz NOT NULL DEFAULT '-infinity',
    lease_floor timestamptz NOT NULL DEFAULT '-infinity',
    current_id bigint,
    debt bigint
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pgqueue_lane_head ON pgqueue_lane (queue, fresh, seq) WHERE parked_until IS NULL;
CREATE INDEX pgqueue_lane_parked ON pgqueue_lane (queue, parked_until) WHERE parked_until IS NOT NULL;
-- The predicate holds for all rows. It keeps the index to statements that name a channel: the planner must not read all
-- of it for the head of the line, when dead entries have made the index of the head a level higher.
CREATE INDEX pgqueue_lane_channel ON pgqueue_lane (channel_id, seq) WHERE channel_id IS NOT NULL;

-- The table is append-only: it holds the arrivals of channels, which the next dequeue folds into their lanes.
-- floor_*      messages became ready, the first of them at this key; NULL: look at the channel again (limits changed, a
--              place is free)
-- lazy         the writer saw the channel's lane with a floor at or below this key, so the arrival is not urgent. It is
--              still needed: the lane may have been emptied before the message was committed.
-- spent        what messages of the channel cost more, or less, than its rate was charged for them
CREATE TABLE pgqueue_arrival (
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    queue varchar(100) COLLATE "C" NOT NULL,
    channel_id bigint NOT NULL,
    lazy boolean NOT NULL DEFAULT false,
    floor_rank smallint,
    floor_at timestamptz,
    floor_id bigint,
    spent bigint
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
-- With the channel in it, a search for the arrivals of one channel reads no row of others.
CREATE INDEX pgqueue_arrival_xid ON pgqueue_arrival (queue, lazy, xid, channel_id);

-- The table holds lower bounds for scans of the two tables above, and of leases and schedules; those of the last tick,
-- which has the largest id, count. They keep every scan off the dead entries that a pinned xmin horizon leaves at the
-- start of an index.
-- queue        '': the bounds of all queues, one row for each tick, but of those that have a row of their own: nobody
--              has served their first lane or arrival in the last ten ticks, and they must not hold the others back
-- expiry_from  no lease expires before this; due_from: nothing is scheduled for a time before this
-- watched_at   what these two may rise to, as soon as all transactions up to watched_xid have ended
-- id           counted by the ticker. Sequences of a database that was made from a template go back when the server
--              crashes soon after.
CREATE TABLE pgqueue_floor (
    id bigint NOT NULL,
    queue varchar(100) COLLATE "C" NOT NULL DEFAULT '',
    ticked_at timestamptz NOT NULL,
    arrival_xid xid8 NOT NULL,
    late_xids xid8[] NOT NULL,
    lane_seq bigint NOT NULL,
    fresh_seq bigint NOT NULL DEFAULT 0,
    parked_from timestamptz NOT NULL,
    next_xid xid8 NOT NULL,
    next_lane_seq bigint NOT NULL,
    expiry_from timestamptz NOT NULL DEFAULT '-infinity',
    due_from timestamptz NOT NULL DEFAULT '-infinity',
    watched_at timestamptz NOT NULL DEFAULT '-infinity',
    watched_xid xid8 NOT NULL DEFAULT '0',
    PRIMARY KEY (id, queue)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
INSERT INTO pgqueue_floor (id, ticked_at, arrival_xid, late_xids, lane_seq, parked_from, next_xid, next_lane_seq)
VALUES (1, clock_timestamp(), '0', '{}', 0, '-infinity', '0', 0);

-- A row is the gate of a queue with limits: a dequeue locks it, so that one transaction at a time leases from the
-- queue.
-- seq          drawn anew with each change: the newest entry of the index is the live one
-- held         every lease of the queue is of one of these messages; those whose lease has ended are left out with the
--              next change
-- next_at, debt  token bucket of the queue's release_interval, as that of a lane
-- wanted       the tokens that the next message waits for; NULL: one
-- seen_at      the change of the queue's limits since which held is complete; NULL: it is not yet
CREATE SEQUENCE pgqueue_gate_seq;
CREATE TABLE pgqueue_gate (
    queue varchar(100) COLLATE "C" NOT NULL,
    seq bigint NOT NULL DEFAULT 0,
    held bigint[] NOT NULL DEFAULT '{}',
    next_at timestamptz NOT NULL DEFAULT '-infinity',
    seen_at timestamptz,
    debt bigint,
    wanted integer
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pgqueue_gate_queue ON pgqueue_gate (queue, seq);
-- A row lists leases that were taken beside the gate of a queue, at one of its eight sides (pgqueue_enter_beside). seq
-- and held are as in the gate.
CREATE TABLE pgqueue_gate_side (
    queue varchar(100) COLLATE "C" NOT NULL,
    side smallint NOT NULL,
    seq bigint NOT NULL DEFAULT 0,
    held bigint[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pgqueue_gate_side_queue ON pgqueue_gate_side (queue, side, seq);
-- The room of a queue is what a dequeue may take of it; see pgqueue_queue_allowance and pgqueue_enter_beside.
-- messages     how many; 0 when the queue is paused or at a limit
-- contended    another dequeue holds the gate
-- side         the dequeue passes beside the gate (pgqueue_enter_beside); NULL: it holds the gate
-- place        where the list is stored
-- ids, channel_ids  the live leases, which the list must hold; without shares no channels
-- seen_at      the change of the limits that the list goes by
-- next_at, step  the time of the bucket, and how far a message of cost 1 moves it
-- tokens, burst  in the bucket, and the most it has, NULL without a rate
-- wanted       as in the gate
-- by_share     fairness is share; most: what one channel may have leased, NULL without max_share
CREATE TYPE pgqueue_queue_room AS (
    messages integer,
    contended boolean,
    side smallint,
    place tid,
    ids bigint[],
    channel_ids bigint[],
    seen_at timestamptz,
    next_at timestamptz,
    step interval,
    tokens numeric,
    burst integer,
    wanted integer,
    by_share boolean,
    most integer
);
-- What one call knows of a line, as pgqueue_line returns it.
CREATE TYPE pgqueue_ends AS (
    lane_seq bigint,
    fresh_seq bigint,
    head bigint,
    fresh_head bigint,
    urgent boolean,
    limits boolean
);

-- The tables count the live messages of channels that have a max_size, and those that left since (the next enqueue
-- subtracts them).
CREATE TABLE pgqueue_channel_size (
    channel_id bigint PRIMARY KEY,
    live bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE pgqueue_departure (
    channel_id bigint NOT NULL,
    messages bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX pgqueue_departure_channel ON pgqueue_departure (channel_id);

-- The tables behind shared limits (pgqueue_limit). The holder of the limit's row alone writes them.
-- The table of handlers says which handlers' messages have a limit, whatever limits the message names, and which of
-- these limits is the breaker of the handler.
CREATE TABLE pgqueue_limit_handler (
    handler varchar(200) NOT NULL,
    limit_id bigint NOT NULL,
    breaker boolean NOT NULL DEFAULT false,
    PRIMARY KEY (handler, limit_id)
);
-- A place is what a leased message takes of a limit. It counts as long as the message is under the lease that began at
-- placed_at; the next lease within the limit deletes it after that. Limits with a rate only keep no places, but the row
-- that a channel has of a limit does.
CREATE TABLE pgqueue_place (
    limit_id bigint NOT NULL,
    message_id bigint NOT NULL,
    placed_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pgqueue_place_limit ON pgqueue_place (limit_id, placed_at);
-- The table is append-only: corrections of what messages cost, which the next lease within the limit takes from its
-- tokens. A row is of a shared limit or of the rate of a queue; those of channels are arrivals.
-- spent_at: when a dequeue took a token beside others (pgqueue_hold_side); NULL: a correction.
CREATE TABLE pgqueue_spent (
    limit_id bigint,
    queue varchar(100) COLLATE "C",
    cost bigint NOT NULL,
    spent_at timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pgqueue_spent_limit ON pgqueue_spent (limit_id) WHERE limit_id IS NOT NULL;
CREATE INDEX pgqueue_spent_queue ON pgqueue_spent (queue) WHERE queue IS NOT NULL;
-- tokens       in the bucket at filled_at; negative while it has debts; NULL: no message has had this limit yet
-- place_floor  no live place of the limit is older than this
-- turn         the channel whose waiting messages were promoted last
-- turn_left    how many more of them its turn has
-- awaited      the limit has got a handler, and these transactions may lease its messages without the limit, because
--              they began before; '{}': they are not looked up yet; NULL: all leases have their places
-- saved_at     a promotion saw that the message whose turn it is costs more than is free: it saves up
-- saved_for    what that message costs
CREATE TABLE pgqueue_meter (
    limit_id bigint PRIMARY KEY,
    tokens double precision,
    filled_at timestamptz,
    place_floor timestamptz,
    turn bigint NOT NULL DEFAULT 0,
    turn_left integer NOT NULL DEFAULT 0,
    awaited text[],
    saved_at timestamptz,
    saved_for integer
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
-- The table is append-only: it says how messages of handlers with a breaker ended. A success is kept when a failure was
-- before it.
-- channel_id   0: the breaker is one for all channels
-- tried        it was the message that tried while the breaker was open
CREATE TABLE pgqueue_breaker_outcome (
    limit_id bigint NOT NULL,
    channel_id bigint NOT NULL,
    message_id bigint NOT NULL,
    leased_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    failed boolean NOT NULL,
    tried boolean NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX pgqueue_breaker_outcome_ended ON pgqueue_breaker_outcome (limit_id, channel_id, ended_at);
-- The table keeps what happened to breakers until maintenance of a worker has reported it, each row once.
-- change      opened | tried | closed
-- until       opened: when a message may try
-- message_id  tried: the message
CREATE TABLE pgqueue_breaker_change (
    limit_id bigint NOT NULL,
    at timestamptz NOT NULL,
    change varchar(10) NOT NULL,
    until timestamptz,
    message_id bigint
);
CREATE INDEX pgqueue_breaker_change_at ON pgqueue_breaker_change (at);
-- A message that a worker has settled, as its breaker sees it.
CREATE TYPE pgqueue_ended AS (
    handler text,
    channel_id bigint,
    id bigint,
    leased_at timestamptz
);
-- A room is what one call knows of a limit that it holds; see pgqueue_hold_limit and pgqueue_limit_room.
-- counted: its messages take places; used: this call has leased a message within it; waited: messages wait for it;
-- tries: it is an open breaker; per_channel: it is one for each channel, whose rows have the places; beside: the call
-- holds a side of it alone (pgqueue_hold_side).
CREATE TYPE pgqueue_room AS (
    limit_id bigint,
    held boolean,
    counted boolean,
    used boolean,
    places bigint,
    cost bigint,
    max_cost integer,
    tokens double precision,
    burst integer,
    place_floor timestamptz,
    stale tid[],
    spent tid[],
    turn bigint,
    turn_left integer,
    waited boolean,
    tries boolean,
    per_channel boolean,
    saved_at timestamptz,
    beside boolean
);

-- A use is what a limit has given out, and what waits for it.
-- kind, name   shared and the name of the limit, or queue and the name of the queue
-- places       leased messages that count
-- cost         what they cost; NULL for a queue
-- tokens       in the bucket of the rate, negative while it has debts; NULL without a rate
-- waiting      messages that wait for a shared limit, or that are ready in a queue at its limit
-- oldest       how long one of them has waited at most, since it became due
-- why          paused, full or rate, if there is no room for the message that has waited longest
-- complete     these were all; else waiting and oldest mean "at least"
CREATE TYPE pgqueue_limit_use AS (
    kind text,
    name text,
    places bigint,
    max_concurrency bigint,
    cost bigint,
    max_cost bigint,
    tokens double precision,
    waiting integer,
    oldest interval,
    why text,
    complete boolean
);

-- The table is append-only: order keys whose next message may not have been made ready, because another transaction
-- held it, or the key. The next dequeue that finds too few messages, or a tick, looks at them again.
CREATE TABLE pgqueue_order_note (
    channel_id bigint NOT NULL,
    order_key varchar(200) NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- The table names the workers that sleep until a message arrives on a queue. NOTIFY takes a database-wide lock at
-- commit, so it is sent to sleepers only.
CREATE TABLE pgqueue_waiter (
    queue varchar(100) COLLATE "C" NOT NULL,
    wait_until timestamptz NOT NULL,
    worker text NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX pgqueue_waiter_queue ON pgqueue_waiter (queue, wait_until);

-- A warning has a kind, dead_letter or lease_expired, and a sequence for each kind.
-- The sequences keep when the server log was last warned, in seconds since 1970. A sequence survives a rollback, and no
-- transaction waits for it.
CREATE SEQUENCE pgqueue_warned_dead_letter;
CREATE SEQUENCE pgqueue_warned_lease_expired;

-- The table keeps when the server log was last warned that a queue is not picked up, for each queue, or one would hide
-- the others.
CREATE TABLE pgqueue_queue_warning (
    queue varchar(100) COLLATE "C" PRIMARY KEY,
    warned_at timestamptz NOT NULL
);

-- The table says from which days of the archive the retention of a queue has deleted its rows. block: where the next
-- range of the partition begins; NULL: the day is done. It goes with the partition.
CREATE TABLE pgqueue_pruned (
    queue varchar(100) COLLATE "C" NOT NULL,
    day date NOT NULL,
    block bigint,
    PRIMARY KEY (queue, day)
);

-- The table has the keys of pgqueue_enqueue_unique, and which message has each: 0 while it is enqueued. expires_at: the
-- key is taken until then, whatever becomes of the message. Only enqueues write it; pgqueue_prune_line deletes keys that
-- nobody has any more.
CREATE TABLE pgqueue_unique_key (
    channel_id bigint NOT NULL,
    unique_key varchar(200) NOT NULL,
    message_id bigint NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (channel_id, unique_key)
);

-- The table counts the messages of partitions that retention has dropped, so that totals stay true.
CREATE TABLE pgqueue_tally (
    queue varchar(100) COLLATE "C" NOT NULL,
    channel varchar(200) COLLATE "C" NOT NULL,
    messages bigint NOT NULL,
    PRIMARY KEY (queue, channel)
);

-- A table without a key publishes whole rows, or a publication of all tables (FOR ALL TABLES) would make PostgreSQL
-- refuse each UPDATE and DELETE of it. It costs nothing unless wal_level is logical.
ALTER TABLE pgqueue_lane REPLICA IDENTITY FULL;
ALTER TABLE pgqueue_arrival REPLICA IDENTITY FULL;
ALTER TABLE pgqueue_gate REPLICA IDENTITY FULL;
ALTER TABLE pgqueue_gate_side REPLICA IDENTITY FULL;
ALTER TABLE pgqueue_departure REPLICA IDENTITY FULL;
ALTER TABLE pgqueue_place REPLICA IDENTITY FULL;
ALTER TABLE pgqueue_spent REPLICA IDENTITY FULL;
ALTER TABLE pgqueue_breaker_outcome REPLICA IDENTITY FULL;
ALTER TABLE pgqueue_breaker_change REPLICA IDENTITY FULL;
ALTER TABLE pgqueue_order_note REPLICA IDENTITY FULL;
ALTER TABLE pgqueue_waiter REPLICA IDENTITY FULL;
