-- Looks at the commit of an enqueue whether what the message waits for has ended, and else makes sure that it tells the
-- message. So nothing that others settle is held while the client's transaction goes on.
-- Deferred constraint trigger on pgqueue_batch, AFTER INSERT of a row that is not sealed, of a message that waits.
-- Locks: as pgqueue_after_seal, then as pgqueue_batch_finish and pgqueue_after_settled.
CREATE FUNCTION pgqueue_after_committed()
RETURNS trigger
LANGUAGE plpgsql
SECURITY DEFINER
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgqueue_batch AS b WHERE b.id = NEW.id) THEN
        -- It was cancelled in the same transaction: what it waited for does not know it.
        DELETE FROM pgqueue_batch_member AS m WHERE m.batch_id = NEW.id;
    ELSIF pgqueue_after_seal(NEW.id) THEN
        PERFORM pgqueue_after_end(NEW.id);
    ELSE
        INSERT INTO pgqueue_batch_unsure (batch_id) VALUES (NEW.id);
    END IF;
    RETURN NULL;
END;
$$;
