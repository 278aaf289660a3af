-- One queue is one channel: there are no tenants in it.
SELECT %(channels)s::int;
