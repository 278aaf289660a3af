"""The statements of one message and of many. Their parameters come in the order of Bound."""

from __future__ import annotations

from django_pgqueue.sql.caller import CallerStatement

ONE = CallerStatement(
    "pgqueue_enqueue",
    """
SELECT id, outcome, created_at, dropped_ids, refusal, pg_backend_pid() FROM pgqueue_enqueue(
    %s::text, %s::jsonb, %s::text, %s::text, %s::bytea, %s::jsonb, %s::integer, %s::timestamptz, %s::interval,
    %s::integer, %s::interval, %s::float8, %s::interval, %s::text, p_limits => %s::text[], p_cost => %s::integer,
    p_order_key => %s::text, p_create_channel => %s::boolean, p_wait => %s::interval)
""",
)
# Without the dedupe key.
UNIQUE = CallerStatement(
    "pgqueue_enqueue_unique",
    """
SELECT id, outcome, created_at, dropped_ids, refusal, pg_backend_pid() FROM pgqueue_enqueue_unique(
    %s::jsonb, %s::text, %s::jsonb, %s::text, %s::text, %s::bytea, %s::jsonb, %s::integer, %s::timestamptz,
    %s::interval, %s::integer, %s::interval, %s::float8, %s::interval, p_limits => %s::text[], p_cost => %s::integer,
    p_order_key => %s::text, p_create_channel => %s::boolean, p_wait => %s::interval)
""",
)
# The moment as text: see binding.py. chr(31): SEPARATOR. See sql/values.py for the arrays with NULLs. The usual answer,
# that all messages were created at one time, is one row with all ids: a thousand rows would take the client and the
# server longer than their conversion does.
MANY = CallerStatement(
    "pgqueue_enqueue_many",
    """
WITH answer AS MATERIALIZED (
    SELECT id, outcome, created_at, dropped_ids, refusal FROM pgqueue_enqueue_many(
        p_handlers => %s::text[],
        p_payloads => string_to_array(%s::text, chr(31), '')::jsonb[],
        p_channels => %s::text[],
        p_queues => %s::text[],
        p_bodies => string_to_array(%s::text, ',', '')::bytea[],
        p_headers => string_to_array(%s::text, chr(31), '')::jsonb[],
        p_priorities => %s::integer[],
        p_dequeue_ats => string_to_array(%s::text, ',', '')::timestamptz[],
        p_delays => string_to_array(%s::text, ',', '')::interval[],
        p_max_attempts => %s::integer[],
        p_backoffs => string_to_array(%s::text, ',', '')::interval[],
        p_backoff_factors => string_to_array(%s::text, ',', '')::float8[],
        p_backoff_longests => string_to_array(%s::text, ',', '')::interval[],
        p_dedupe_keys => (SELECT array_agg(u) FROM jsonb_array_elements_text(%s::jsonb) AS u),
        p_limits => string_to_array(%s::text, chr(31), '')::jsonb[],
        p_costs => string_to_array(%s::text, ',', '')::integer[],
        p_order_keys => (SELECT array_agg(u) FROM jsonb_array_elements_text(%s::jsonb) AS u),
        p_create_channel => %s::boolean,
        p_partial => %s::boolean,
        p_wait => %s::interval)
), alike AS (
    SELECT array_agg(id)::text AS ids, min(created_at) AS created_at FROM answer
    HAVING bool_and(outcome = 'created' AND dropped_ids IS NULL) AND min(created_at) = max(created_at)
)
SELECT ids, NULL AS id, NULL AS outcome, created_at::text, NULL AS dropped_ids, NULL AS refusal, pg_backend_pid()
FROM alike
UNION ALL
SELECT NULL, id, outcome, created_at::text, dropped_ids, refusal, pg_backend_pid() FROM answer
WHERE NOT EXISTS (SELECT FROM alike)
""",
)
