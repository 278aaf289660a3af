-- In the order of the leases: channel number, when it was enqueued, when it was leased.
SELECT substr(channel, 2)::int, extract(epoch FROM created_at)::float8, extract(epoch FROM leased_at)::float8
  FROM pgqueue_archived_message
 WHERE leased_at >= to_timestamp(%(since)s::float8)
 ORDER BY leased_at
