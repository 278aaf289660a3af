-- An attacker's session: a temporary table in front of each table of the queue, empty, and a write to it raises.
DO $do$
DECLARE
    v_name text;
BEGIN
    CREATE FUNCTION pg_temp.trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'caught'; END $$;
    FOR v_name IN
        SELECT relname FROM pg_class
        WHERE relname LIKE 'pgqueue%' AND relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('CREATE TEMP TABLE %I (LIKE public.%I INCLUDING DEFAULTS)', v_name, v_name);
        EXECUTE format('CREATE TRIGGER trap BEFORE INSERT OR UPDATE OR DELETE ON pg_temp.%I EXECUTE FUNCTION pg_temp.trap()', v_name);
    END LOOP;
    FOR v_name IN
        SELECT relname FROM pg_class WHERE relname LIKE 'pgqueue%' AND relkind = 'S' AND relnamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('CREATE TEMP SEQUENCE %I', v_name);
    END LOOP;
END $do$
