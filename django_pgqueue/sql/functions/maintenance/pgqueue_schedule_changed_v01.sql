-- Plans a schedule anew whose times changed, or that was enabled or disabled; ticks that were due while it was off
-- do not count as missed.
-- Row trigger, BEFORE UPDATE.
-- Locks: none.
CREATE FUNCTION pgqueue_schedule_changed()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    NEW.next_fire_at := NULL;
    NEW.last_error := '';
    RETURN NEW;
END;
$$;
