-- Raises the error that a stream does not belong to the caller any more, or does not exist.
-- Locks: none.
-- Errors: always PGQ02 or PGQ03.
CREATE FUNCTION pgqueue_stream_lost(p_name text)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM pgqueue_stream AS s WHERE s.name = p_name) THEN
        RAISE EXCEPTION 'another query has taken over stream "%"', p_name
            USING ERRCODE = 'PGQ02',
            HINT = 'A stream is read by one query at a time. Give each query a stream of its own.';
    END IF;
    RAISE EXCEPTION 'stream "%" does not exist', left(p_name, 200)
        USING ERRCODE = 'PGQ03',
        HINT = 'It was released, or never opened: start its query again, with a new checkpoint.';
END;
$$;
