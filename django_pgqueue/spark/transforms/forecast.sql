-- Forecasts the new and the waiting messages of each channel in each of the next hours.
-- Tables: {history}: hourly metrics of whole channels; {live}: messages that wait now, by the hour when they are due.
-- Parameters: :now; :until (messages settled later are not in the lake yet); :hours to look ahead.
-- Lists the hours to look ahead.
WITH hours AS (
    SELECT hour_at,
        -- The present hour counts with the part that is left of it.
        least(1, (unix_micros(hour_at) + 3600e6D - unix_micros(:now)) / 3600e6D) AS part
    FROM (
        SELECT explode(sequence(date_trunc('hour', :now), date_trunc('hour', :now) + make_dt_interval(0, :hours - 1),
            INTERVAL 1 HOUR))
            AS hour_at)
),
-- Bounds the whole hours from the queue's first message to the last export. An hour that has just begun counts when
-- there is no other.
spans AS (
    SELECT queue, min(bucket_at) AS first_at,
        greatest(min(bucket_at), date_trunc('hour', :until) - INTERVAL 1 HOUR) AS last_at
    FROM {history}
    GROUP BY queue
),
-- Leaves out hours that the lake does not hold completely.
seen AS (
    SELECT h.* FROM {history} AS h JOIN spans AS s ON s.queue = h.queue AND h.bucket_at <= s.last_at
),
-- Counts how often each hour of the day was observed; hours without messages count.
observed AS (
    SELECT queue, hour(hour_at) AS hour, count(*) AS times
    FROM (SELECT queue, explode(sequence(first_at, last_at, INTERVAL 1 HOUR)) AS hour_at FROM spans)
    GROUP BY queue, hour(hour_at)
),
-- Sums the observed hours of each queue.
observed_at_all AS (
    SELECT queue, sum(times) AS times FROM observed GROUP BY queue
),
-- Sums the enqueued messages of each channel by the hour of the day.
by_hour AS (
    SELECT queue, channel, hour(bucket_at) AS hour, sum(enqueued) AS enqueued FROM seen
    GROUP BY queue, channel, hour(bucket_at)
),
-- Takes the best hour of each channel as its capacity: in the others there may have been nothing to do.
by_channel AS (
    SELECT queue, channel, sum(enqueued) AS enqueued, max(completed + popped + dead) AS capacity FROM seen
    GROUP BY queue, channel
),
-- Lists the channels of the history and of the waiting messages.
channels AS (
    SELECT queue, channel FROM by_channel UNION SELECT queue, channel FROM {live}
),
-- Expects an hour of the day that was never seen to be as the others are.
expected AS (
    SELECT c.queue, c.channel, h.hour_at,
        h.part * CASE
            WHEN o.times IS NOT NULL THEN coalesce(b.enqueued, 0) / o.times
            ELSE coalesce(a.enqueued / t.times, 0)
        END AS enqueued,
        h.part * coalesce(a.capacity, 0) AS capacity,
        coalesce(l.messages, 0) AS due
    FROM channels AS c
    CROSS JOIN hours AS h
    LEFT JOIN by_hour AS b ON b.queue = c.queue AND b.channel = c.channel AND b.hour = hour(h.hour_at)
    LEFT JOIN observed AS o ON o.queue = c.queue AND o.hour = hour(h.hour_at)
    LEFT JOIN observed_at_all AS t ON t.queue = c.queue
    LEFT JOIN by_channel AS a ON a.queue = c.queue AND a.channel = c.channel
    LEFT JOIN {live} AS l ON l.queue = c.queue AND l.channel = c.channel AND l.hour_at = h.hour_at
),
-- Sums the surplus of each channel from the present hour on.
summed AS (
    SELECT e.*, sum(e.enqueued + e.due - e.capacity) OVER (PARTITION BY e.queue, e.channel
        ORDER BY e.hour_at) AS surplus
    FROM expected AS e
)
-- A backlog never falls below nothing: an idle hour does not help the next one.
SELECT :now AS computed_at, s.queue, s.channel, s.hour_at, CAST(s.enqueued AS DOUBLE) AS expected_enqueued,
    CAST(s.capacity AS DOUBLE) AS expected_capacity,
    CAST(s.surplus - least(0, min(s.surplus) OVER (PARTITION BY s.queue, s.channel
        ORDER BY s.hour_at)) AS DOUBLE) AS expected_backlog,
    to_date(:now) AS day
FROM summed AS s
