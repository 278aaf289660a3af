-- Creates the tables of events. Only the functions of the app write them.

CREATE INDEX pgqueue_step_waiting ON pgqueue_step (name, message_id) WHERE kind = 'wait' AND until IS NOT NULL;

-- A row is an event that was notified: the first of its name. A prune deletes it.
-- payload  JSON, in the stored form of a codec if there is one
CREATE TABLE pgqueue_event (
    name text PRIMARY KEY,
    payload jsonb NOT NULL,
    notified_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX pgqueue_event_notified ON pgqueue_event (notified_at);

-- A row is a wait or a notification that may not have seen the other one. The next sweep looks again.
CREATE TABLE pgqueue_event_unsure (
    name text NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Without a key, a publication of the table would refuse its deletions.
ALTER TABLE pgqueue_event_unsure REPLICA IDENTITY FULL;
CREATE INDEX pgqueue_event_unsure_name ON pgqueue_event_unsure (name);
