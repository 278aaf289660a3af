-- An attacker's schema: all that the functions call, under the same names and with the same parameters: functions of PostgreSQL, those of
-- the queue, and operators on the types that it uses. Each raises. The setting evil.used has the names.
CREATE SCHEMA evil;
GRANT USAGE ON SCHEMA evil TO PUBLIC;
DO $do$
DECLARE
    v_it record;
    v_trap text := ' LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION ''caught''; END $$';
    v_types oid[] := '{int2,int4,int8,text,varchar,timestamptz,interval,uuid,xid8,bool,jsonb,float8,numeric,oid,name}'::regtype[]::oid[];
BEGIN
    FOR v_it IN
        SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result
        FROM pg_proc AS p
        WHERE p.prokind <> 'p' AND p.prorettype <> ALL ('{trigger,internal}'::regtype[]) AND 'internal'::regtype <> ALL (p.proargtypes)
            AND '"any"'::regtype <> ALL (p.proargtypes)
            AND p.oid NOT IN (SELECT aggfnoid FROM pg_aggregate WHERE aggkind <> 'n')
            AND (p.proname LIKE 'pgqueue%' OR p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY (current_setting('evil.used')::text[]))
    LOOP
        EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s', v_it.proname, v_it.arguments, v_it.result) || v_trap;
    END LOOP;
    FOR v_it IN
        SELECT o.oprname, o.oprleft::regtype AS l, o.oprright::regtype AS r, o.oprresult::regtype AS result, o.oid
        FROM pg_operator AS o
        WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprleft = ANY (v_types) AND o.oprright = ANY (v_types)
    LOOP
        EXECUTE format('CREATE FUNCTION evil.operator_%s(%s, %s) RETURNS %s', v_it.oid, v_it.l, v_it.r, v_it.result) || v_trap;
        EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.operator_%s)',
            v_it.oprname, v_it.l, v_it.r, v_it.oid);
    END LOOP;
END $do$
