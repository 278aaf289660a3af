-- Returns why a message may not cost so much, in words; NULL when it may. A cost beyond the burst closes the rate for
-- all its messages until it is paid: for an hour at most, or for the setting pgqueue.max_debt.
-- p_limits: the ids of its shared limits; those of its handler count, too.
-- Locks: none.
CREATE FUNCTION pgqueue_cost_problem(p_cost integer, p_channel_id bigint, p_handler text, p_limits bigint[])
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
BEGIN
    RETURN (
        SELECT format('cost is %s, and the rate of %s allows %s: its burst, or what it gives in %s (the setting '
            'pgqueue.max_debt)', p_cost, n.label, n.most, n.longest)
        FROM (
            SELECT r.label, d.longest,
                greatest(r.burst, floor(extract(epoch FROM d.longest) / extract(epoch FROM r.step))) AS most
            FROM (
                SELECT format('channel "%s"', c.name) AS label, c.release_interval AS step, c.release_burst AS burst
                FROM pgqueue_channel AS c WHERE c.id = p_channel_id AND c.released_at IS NULL
                UNION ALL
                SELECT format('queue "%s"', q.name), q.release_interval, q.release_burst
                FROM pgqueue_queue AS q JOIN pgqueue_channel AS c ON c.queue = q.name WHERE c.id = p_channel_id
                UNION ALL
                SELECT format('limit "%s"', l.name), l.release_interval, l.release_burst
                FROM pgqueue_limit AS l
                WHERE l.id = ANY (p_limits) OR l.id IN (
                    SELECT h.limit_id FROM pgqueue_limit_handler AS h WHERE h.handler = p_handler)
            ) AS r
            CROSS JOIN (
                SELECT coalesce(nullif(current_setting('pgqueue.max_debt', true), '')::interval, '1 hour') AS longest
            ) AS d
            WHERE r.step IS NOT NULL
        ) AS n
        WHERE p_cost > n.most
        ORDER BY n.most LIMIT 1);
END;
$$;
