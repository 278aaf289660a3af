-- Indexes the order of commits of the dead letters, for exports. A redrive updates them, so they are not read by place,
-- as the archive is.
-- The index leaves out the id: while the table is empty, the planner would take this index for look-ups by id.
-- The table is the queue's, which may be at work when a project adds the pipeline: so it is built CONCURRENTLY, outside
-- of a transaction.
CREATE INDEX CONCURRENTLY pgqueue_dead_letter_xid ON pgqueue_dead_letter (xid);
