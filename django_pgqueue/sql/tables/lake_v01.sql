-- What exports need of the dead letters. A redrive updates them, so their order of commits is read by this index, not by place.
CREATE INDEX pgqueue_dead_letter_xid ON pgqueue_dead_letter (xid, id);
