-- Trigger function: a schedule whose times changed, or that was enabled or disabled, is planned anew; what was due while it was off is not missed.
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
