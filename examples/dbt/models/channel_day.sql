SELECT
    day, queue, channel, count(*) AS settled, count(*) FILTER (WHERE outcome = 'completed') AS completed,
    quantile_disc((epoch_us(leased_at) - epoch_us(dequeue_at)) / 1e6, 0.95) AS wait_p95_seconds
FROM {{ source('lake', 'archive') }}
GROUP BY day, queue, channel
