-- Returns the error in the settings of a channel, queue, limit or breaker; NULL when all are valid.
-- p_thing: channel | queue | limit | breaker. p_settings: a JSON object, as in the function that sets them. A setting
-- that is null is not set; context, forgive and handlers may not be null. The table below has the rules: of what it is
-- a setting, what it takes, and the bounds or the words.
-- Locks: none.
CREATE FUNCTION pgqueue_settings_problem(p_thing text, p_settings jsonb)
RETURNS text
LANGUAGE plpgsql
STABLE
AS $$
DECLARE
    v_rule record;
BEGIN
    IF jsonb_typeof(p_settings) IS DISTINCT FROM 'object' THEN
        RETURN 'the settings are not a JSON object';
    END IF;
    FOR v_rule IN
        WITH rule AS (
            SELECT r.* FROM (VALUES
                ('max_concurrency', '{channel,queue,limit}', 'an integer', '1', '2147483647'),
                ('max_size', '{channel}', 'an integer', '1', '2147483647'),
                ('max_cost', '{limit}', 'an integer', '1', '2147483647'),
                ('release_burst', '{channel,queue,limit}', 'an integer', '1', '2147483647'),
                ('weight', '{channel}', 'an integer', '1', '1000'),
                ('failures', '{breaker}', 'an integer', '1', '1000'),
                ('max_share', '{queue}', 'a part', '0.00001', '1'),
                ('release_interval', '{channel,queue,limit}', 'an interval', '1 microsecond', '365000 days'),
                ('retention', '{queue}', 'an interval', '1 microsecond', '365000 days'),
                ('dead_letter_retention', '{queue}', 'an interval', '1 microsecond', '365000 days'),
                ('within', '{breaker}', 'an interval', '1 microsecond', '365000 days'),
                ('pause', '{breaker}', 'an interval', '1 second', '365000 days'),
                ('archive', '{channel,queue}', 'a word', 'full, outcome or none', NULL),
                ('full_policy', '{channel}', 'a word', 'error, drop, drop_oldest or replace', NULL),
                ('on_dead', '{channel}', 'a word', 'continue or pause', NULL),
                ('fairness', '{queue}', 'a word', 'turns or share', NULL),
                ('per', '{limit}', 'a word', 'channel', NULL),
                ('per', '{breaker}', 'a word', 'handler or channel', NULL),
                ('ordered', '{channel}', 'a boolean', NULL, NULL),
                ('events', '{queue}', 'a boolean', NULL, NULL),
                ('forgive', '{channel,queue,limit}', 'a boolean', NULL, NULL),
                ('context', '{channel}', 'a JSON object', NULL, NULL),
                ('handlers', '{limit}', 'a JSON array of names', NULL, NULL)
            ) AS r (key, things, takes, least, most)
            WHERE p_thing = ANY (r.things::text[])
        )
        SELECT s.key, s.value, s.value #>> '{}' AS text, jsonb_typeof(s.value) AS type, r.takes, r.least, r.most,
            (SELECT array_agg(n.key) FROM rule AS n) AS known
        FROM jsonb_each(p_settings) AS s LEFT JOIN rule AS r ON r.key = s.key
        WHERE s.value <> 'null' OR r.key IS NULL OR s.key IN ('context', 'forgive', 'handlers')
        ORDER BY r.key IS NOT NULL
    LOOP
        IF v_rule.takes IS NULL THEN
            RETURN format('unknown settings %s; known are %s', left((p_settings - v_rule.known)::text, 100),
                v_rule.known);
        ELSIF v_rule.takes = 'a word' AND v_rule.text <> ALL (regexp_split_to_array(v_rule.least, ', | or ')) THEN
            RETURN format('%s is %s: it takes %s', v_rule.key, left(v_rule.text, 100), v_rule.least);
        ELSIF v_rule.takes = 'a boolean' AND v_rule.type <> 'boolean'
            OR v_rule.takes = 'a JSON object' AND v_rule.type <> 'object'
            OR v_rule.takes = 'a JSON array of names'
                AND (v_rule.type <> 'array' OR v_rule.value @? 'strict $[*] ? (@.type() != "string")')
        THEN
            RETURN format('%s is not %s', v_rule.key, v_rule.takes);
        ELSIF v_rule.takes IN ('an integer', 'a part') THEN
            IF v_rule.type <> 'number' THEN
                RETURN format('%s is not a number but %s', v_rule.key, left(v_rule.value::text, 100));
            ELSIF v_rule.text::numeric NOT BETWEEN v_rule.least::numeric AND v_rule.most::numeric
                OR v_rule.takes = 'an integer' AND v_rule.text::numeric <> trunc(v_rule.text::numeric)
            THEN
                RETURN format('%s is not %s from %s to %s but %s%s', v_rule.key, v_rule.takes, v_rule.least,
                    v_rule.most, left(v_rule.text, 100),
                    CASE
                        WHEN v_rule.text::numeric >= 1 THEN ''
                        WHEN v_rule.key = 'max_concurrency' THEN format(' (pause the %s instead)', p_thing)
                        WHEN v_rule.key = 'max_size' THEN format(' (release the %s instead)', p_thing)
                    END);
            END IF;
        ELSIF v_rule.takes = 'an interval' THEN
            BEGIN
                IF v_rule.text::interval NOT BETWEEN v_rule.least::interval AND v_rule.most::interval THEN
                    RETURN format('%s is not between %s and %s', v_rule.key, v_rule.least, v_rule.most);
                END IF;
            EXCEPTION WHEN data_exception THEN
                RETURN format('%s is not an interval but %s', v_rule.key, left(v_rule.text, 100));
            END;
        END IF;
    END LOOP;
    RETURN NULL;
END;
$$;
